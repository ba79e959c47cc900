#!/usr/bin/env python3
"""Neurons of a small ReLU model from a file ("LLM in a flash"), on a model that is trained here on books.

    ninja -C build/release tern neurons
    TERN_DATA=… benchmarks/inference/neurons.py --work DIR [--steps 300] [--quick]

Trains an OPT of 2 layers, 512 wide with 2,048 neurons in each MLP, in f32, on the training set of the books; then prints, of passages that it
has not read: the share of active neurons; what a cache of the last k tokens' neurons reads, as executed and by set arithmetic on the recorded sets
(the program fails if they differ), with and without bundles; recall and precision of predictors, and the change of the loss; and tokens a second
beside reading whole MLPs. The predictor is fitted to passages of the training set, its thresholds to the validation set, all figures are of the
test set. Training goes on from its last checkpoint. --quick: a minute, a smaller model, figures that mean nothing. Needs nothing but Python's library.
"""
import argparse, json, lzma, os, pathlib, subprocess, sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOKENIZER = ROOT / "examples/novels-6m"
SEQ = 256


def config(width: int, hidden: int, layers: int) -> dict:
    vocab = json.loads((TOKENIZER / "config.json").read_text())["vocab_size"]
    return {"model_type": "opt", "architectures": ["OPTForCausalLM"], "vocab_size": vocab, "hidden_size": width, "word_embed_proj_dim": width,
            "ffn_dim": hidden, "num_hidden_layers": layers, "num_attention_heads": width // 64, "activation_function": "relu", "dropout": 0.0,
            "max_position_embeddings": 2 * SEQ, "do_layer_norm_before": True, "init_std": 0.02, "tie_word_embeddings": True,
            "bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0, "torch_dtype": "float32"}


def prepare(a: argparse.Namespace) -> None:
    """The model's configuration, the text that it learns, and beginnings of the three sets."""
    a.work.mkdir(parents=True, exist_ok=True)
    shape = (128, 512, 2) if a.quick else (512, 2048, 2)
    (a.work / "config.json").write_text(json.dumps(config(*shape), indent=1) + "\n")
    for name, most in (("train", 12_000_000), ("valid", 900_000), ("test", 850_000)):
        target = a.work / f"{name}.txt"
        if target.exists():
            continue
        with lzma.open(a.data / f"text/books/{name}.txt.xz", "rt", encoding="utf-8") as file:
            target.write_text(file.read(most), encoding="utf-8")
    (a.work / "fit.txt").write_text((a.work / "train.txt").read_text(encoding="utf-8")[:900_000].replace("<|endoftext|>", ""), encoding="utf-8")
    for name in ("valid", "test"):
        text = (a.work / f"{name}.txt").read_text(encoding="utf-8")
        (a.work / f"{name}.plain").write_text(text.replace("<|endoftext|>", ""), encoding="utf-8")


def train(a: argparse.Namespace) -> None:
    command = [a.tern, "train", a.work / "config.json", "--from-scratch", "--tokenizer", TOKENIZER, "--data", a.work / "train.txt", "--output",
               a.work / "run", "--seq", SEQ, "--batch", 8, "--steps", a.steps, "--learning-rate", "2e-3", "--min-learning-rate", "1e-4",
               "--warmup-steps", min(50, a.steps // 4), "--schedule", "cosine", "--beta2", "0.98", "--dtype", "f32", "--checkpoint-every", 50, "--log-every", 50]
    subprocess.run([str(word) for word in command], check=True)


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--work", type=pathlib.Path, required=True)
    p.add_argument("--data", type=pathlib.Path, help="default: TERN_DATA")
    p.add_argument("--steps", type=int, help="of training; default 300, 40 with --quick")
    p.add_argument("--quick", action="store_true")
    p.add_argument("--tern", type=pathlib.Path, default=ROOT / "build/release/bin/tern")
    p.add_argument("--neurons", type=pathlib.Path, default=ROOT / "build/release/benchmarks/inference/neurons")
    a = p.parse_args()
    if a.data is None:
        if "TERN_DATA" not in os.environ:
            sys.exit("neurons.py: where are the books? Set TERN_DATA, or --data")
        a.data = pathlib.Path(os.environ["TERN_DATA"])
    a.steps = a.steps or (40 if a.quick else 300)
    if a.quick:
        a.work = a.work / "quick"
    prepare(a)
    train(a)
    sizes = [4, 64, 32, 2] if a.quick else [12, 128, 48, 5]  # passages, tokens of each, tokens of a timed round, rounds
    subprocess.run([str(w) for w in [a.neurons, a.work / "run/model", a.work / "fit.txt", a.work / "valid.plain", a.work / "test.plain", a.work, *sizes]],
                   check=True)


if __name__ == "__main__":
    main()
