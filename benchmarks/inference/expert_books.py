#!/usr/bin/env python3
"""The cache of experts on a mixture that is trained here: routing on books that it has not read, hits by score beside hits by last use.

    ninja -C build/release tern expert_cache
    TERN_DATA=… benchmarks/inference/expert_books.py --work DIR [--experts 16] [--steps 1500] [--passages 16]

Trains a mixture of 16 experts, of which a token takes 2, on the training set of the books; records, of passages of the test set, which
experts each token chose; and gives for each number of places the share of chosen experts that were there: mean over passages, and the
difference between score and last use with its standard error. What is done is not done again: training goes on from its last
checkpoint, and a passage that was measured stays. Needs nothing but Python's library.
"""
import argparse, json, lzma, math, os, pathlib, statistics, subprocess, sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SEQ, VOCAB_OF = 512, ROOT / "examples/novels-6m"


def config(experts: int) -> dict:
    vocab = json.loads((VOCAB_OF / "config.json").read_text())["vocab_size"]
    return {"model_type": "mixtral", "architectures": ["MixtralForCausalLM"], "vocab_size": vocab, "hidden_size": 192, "intermediate_size": 256,
            "num_hidden_layers": 4, "num_attention_heads": 3, "num_key_value_heads": 3, "hidden_act": "silu", "max_position_embeddings": SEQ,
            "initializer_range": 0.02, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": True, "torch_dtype": "bfloat16",
            "num_local_experts": experts, "num_experts_per_tok": 2, "sliding_window": None}


def prepare(data: pathlib.Path, work: pathlib.Path, experts: int, passages: int) -> None:
    """The model's configuration, the text that it learns, and passages of the test set, spread evenly over it."""
    work.mkdir(parents=True, exist_ok=True)
    (work / "config.json").write_text(json.dumps(config(experts), indent=1) + "\n")
    if not (work / "train.txt").exists():
        with lzma.open(data / "text/books/train.txt.xz", "rt", encoding="utf-8") as file:
            text = file.read(60_000_000)
        (work / "train.part").write_text(text, encoding="utf-8")
        (work / "train.part").rename(work / "train.txt")
    with lzma.open(data / "text/books/test.txt.xz", "rt", encoding="utf-8") as file:
        test = file.read()
    for i in range(passages):
        begin = len(test) * (2 * i + 1) // (2 * passages)
        (work / f"passage{i}.txt").write_text(test[begin:begin + 6 * SEQ].replace("<|endoftext|>", ""), encoding="utf-8")


def train(a: argparse.Namespace) -> None:
    command = [a.tern, "train", a.work / "config.json", "--from-scratch", "--tokenizer", VOCAB_OF, "--data", a.work / "train.txt", "--output",
               a.work / "run", "--seq", SEQ, "--batch", 8, "--steps", a.steps, "--learning-rate", "2e-3", "--min-learning-rate", "1e-4",
               "--warmup-steps", 100, "--schedule", "cosine", "--beta2", "0.98", "--dtype", "bf16", "--checkpoint-every", 100, "--log-every", 50]
    subprocess.run([str(word) for word in command], check=True)


def rows_of(a: argparse.Namespace, passage: int) -> list:
    """[places, score by fade…, last use, last use by layer, even share] for each number of places."""
    kept = a.work / f"hits-{a.experts}-{a.steps}-{passage}.json"
    if not kept.exists():
        out = subprocess.run([a.expert_cache, a.work / "run/model", a.work / f"passage{passage}.txt", str(SEQ - 2)], check=True,
                             capture_output=True, text=True).stdout
        rows = [[float(x) for x in line.split()] for line in out.splitlines()[2:]]  # a sentence and the names of columns before them
        kept.write_text(json.dumps(rows))
    return json.loads(kept.read_text())


def tell(tables: list) -> None:
    mean, error = statistics.fmean, lambda xs: statistics.stdev(xs) / math.sqrt(len(xs)) if len(xs) > 1 else math.nan
    print("places  score    last use  by layer  even    score − last use")
    for row in range(len(tables[0])):
        of = lambda column: [t[row][column] for t in tables]
        score, lru = of(3), of(5)  # the cache's own fade is 0.1
        gain = [s - l for s, l in zip(score, lru)]
        print(f"{tables[0][row][0]:6.0f}  {mean(score):.4f}   {mean(lru):.4f}    {mean(of(6)):.4f}    {mean(of(7)):.4f}  {mean(gain):+.4f} ± {error(gain):.4f}")


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--work", type=pathlib.Path, required=True)
    p.add_argument("--data", type=pathlib.Path, help="default: TERN_DATA")
    p.add_argument("--experts", type=int, default=16)
    p.add_argument("--steps", type=int, default=1500)
    p.add_argument("--passages", type=int, default=16)
    p.add_argument("--tern", type=pathlib.Path, default=ROOT / "build/release/bin/tern")
    p.add_argument("--expert-cache", type=pathlib.Path, default=ROOT / "build/release/benchmarks/inference/expert_cache")
    a = p.parse_args()
    if a.data is None:
        if "TERN_DATA" not in os.environ:
            sys.exit("expert_books.py: where are the books? Set TERN_DATA, or --data")
        a.data = pathlib.Path(os.environ["TERN_DATA"])
    prepare(a.data, a.work, a.experts, a.passages)
    train(a)
    tell([rows_of(a, i) for i in range(a.passages)])


if __name__ == "__main__":
    main()
