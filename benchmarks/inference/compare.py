#!/usr/bin/env python3
"""Prompt and decode speed of tern and llama.cpp in one interleaved run: a table on standard output, JSON in a file.

    compare.py --read-rate PATH [--llama-bench PATH] [--tern ./tern] [--prompt 512] [--tokens 32] [--rounds 5] [--threads 2]
               [--isas amx_bf16,avx512_bf16] [--model FOLDER] [--json result.json]

A model of TinyLlama's shape (1.1B: width 2,048, 22 layers, 32 heads over 4, 5,632 hidden, vocabulary 32,000) with random
bf16 weights is written once, exported by `tern export` to GGUF, and read by everyone from a warm page cache. Round after
round every competitor runs once, in turns: tern under each instruction set named, llama.cpp's `llama-bench` (whose own
matrix unit is off in a plain build), and before them `read_rate` (`ninja read_rate`), a plain streaming read of the model's
file by as many threads, the limit of decoding. Of the rounds the median, with the least and the most beside it; of the
reads the best. --model keeps the model for another time. Needs numpy.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
VOCABULARY, WIDTH, LAYERS, HEADS, KV_HEADS, HEAD, HIDDEN = 32000, 2048, 22, 32, 4, 64, 5632


def tensors():
    yield "model.embed_tokens.weight", (VOCABULARY, WIDTH)
    for i in range(LAYERS):
        layer = f"model.layers.{i}."
        for norm in ("input_layernorm", "post_attention_layernorm"):
            yield layer + norm + ".weight", (WIDTH,)
        for name, rows in (("q", HEADS), ("k", KV_HEADS), ("v", KV_HEADS)):
            yield f"{layer}self_attn.{name}_proj.weight", (rows * HEAD, WIDTH)
        yield layer + "self_attn.o_proj.weight", (WIDTH, HEADS * HEAD)
        for name in ("gate", "up"):
            yield f"{layer}mlp.{name}_proj.weight", (HIDDEN, WIDTH)
        yield layer + "mlp.down_proj.weight", (WIDTH, HIDDEN)
    yield "model.norm.weight", (WIDTH,)
    yield "lm_head.weight", (VOCABULARY, WIDTH)


def make_model(a, folder):
    """A Hugging Face directory, its tokenizer trained on the texts of this repository, and the same as GGUF."""
    import numpy

    folder.mkdir()
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": VOCABULARY, "hidden_size": WIDTH,
              "intermediate_size": HIDDEN, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
              "num_key_value_heads": KV_HEADS, "max_position_embeddings": 2048, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
              "hidden_act": "silu", "tie_word_embeddings": False, "torch_dtype": "bfloat16"}
    (folder / "config.json").write_text(json.dumps(config))
    header, offset = {}, 0
    for name, shape in tensors():
        size = 2 * int(numpy.prod(shape))
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    random = numpy.random.default_rng(1)
    with open(folder / "model.safetensors", "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name, shape in tensors():
            x = numpy.ones(shape, numpy.float32) if "norm" in name else random.standard_normal(shape, numpy.float32) * 0.02
            file.write((x.view(numpy.uint32) >> 16).astype(numpy.uint16).tobytes())
    texts = folder.parent / "text.txt"
    texts.write_text("".join(p.read_text(errors="replace") for p in sorted((HERE.parent.parent / "docs").glob("*.md"))))
    run(a.tern, "tokenize", "--train", "--input", texts, "--output", folder, "--vocab-size", 4096)
    run(a.tern, "export", folder, "--format", "gguf", "--output", folder.parent / "model.gguf")
    ids = json.loads(run(a.tern, "tokenize", folder, "--input", texts, "--json"))["token_ids"][: a.prompt]
    prompt = run(a.tern, "tokenize", folder, "--decode", "--text", " ".join(map(str, ids)))
    (folder.parent / "prompt.txt").write_text(prompt)


def run(*command, isa=None):
    environment = {**os.environ, **({"TERN_ISA": isa} if isa else {})}
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, text=True)
    if done.returncode != 0:
        sys.exit(f"compare: {' '.join(map(str, command))} ended with {done.returncode}: {done.stderr[-500:]}")
    return done.stdout


def run_tern(a, work, isa):
    out = json.loads(run(a.tern, "generate", work / "model", "--prompt-file", work / "prompt.txt", "--max-tokens", a.tokens + 1,
                         "--temperature", 0, "--ignore-eos", "--threads", a.threads, "--json", isa=isa))
    t = out["timings"]
    return {"prompt": t["prefill_tokens_per_s"], "decode": t["decode_tokens_per_s"], "first": t["load_s"] + t["first_token_s"],
            "tokens": out["prompt_tokens"]}


def run_llama(a, work):
    rows = json.loads(run(a.llama_bench, "-m", work / "model.gguf", "-p", a.prompt, "-n", a.tokens, "-t", a.threads, "-r", 1, "-o", "json"))
    by = {"prompt" if r["n_prompt"] else "decode": r["avg_ts"] for r in rows}
    return {**by, "first": None}


def summarize(rows, key):
    values = [r[key] for r in rows]
    return {"median": statistics.median(values), "least": min(values), "most": max(values)} if None not in values else None


def table(results, read_rate, streamed):
    print(f"\nplain read of the weights, best of all rounds: {read_rate:.1f} GB/s\n")
    print("| | prompt tokens/s (median, least – most) | decoded tokens/s | share of the read rate | first token, s |\n|---|---|---|---|---|")
    for name, r in results.items():
        cell = lambda s, digits: "–" if s is None else f"{s['median']:,.{digits}f} ({s['least']:,.{digits}f} – {s['most']:,.{digits}f})"
        share = r["decode"]["median"] * streamed / 1e9 / read_rate
        print(f"| {name} | {cell(r['prompt'], 0)} | {cell(r['decode'], 2)} | {100 * share:.0f} % | {cell(r['first'], 2)} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--read-rate", required=True)
    parser.add_argument("--llama-bench")
    parser.add_argument("--tern", default=str(HERE.parent.parent / "tern"))
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--isas", default="amx_bf16,avx512_bf16")
    parser.add_argument("--model")
    parser.add_argument("--json")
    a = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        work = pathlib.Path(a.model or temporary)
        work.mkdir(exist_ok=True)
        if not (work / "prompt.txt").exists():
            make_model(a, work / "model")
        weights = work / "model" / "model.safetensors"
        streamed = weights.stat().st_size - 2 * VOCABULARY * WIDTH  # of the embedding one row is read
        runs, reads = {f"tern {isa}": [] for isa in a.isas.split(",")}, []
        if a.llama_bench:
            runs["llama.cpp"] = []
        for _ in range(a.rounds):
            reads.append(float(run(a.read_rate, weights, a.threads, 5)))
            for name, rows in runs.items():
                rows.append(run_llama(a, work) if name == "llama.cpp" else run_tern(a, work, name.split()[1]))
                print(name, rows[-1], file=sys.stderr)
    results = {name: {key: summarize(rows, key) for key in ("prompt", "decode", "first")} for name, rows in runs.items()}
    table(results, max(reads), streamed)
    if a.json:
        settings = {key: value for key, value in vars(a).items() if key not in ("tern", "read_rate", "llama_bench", "model", "json")}
        pathlib.Path(a.json).write_text(json.dumps({"settings": settings, "reads_gb_per_s": reads, "results": results, "runs": runs}, indent=1) + "\n")


if __name__ == "__main__":
    main()
