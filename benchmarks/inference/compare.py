#!/usr/bin/env python3
"""Prompt and decode speed of tern and llama.cpp in one interleaved run: a table on standard output, JSON in a file.

    compare.py --read-rate PATH [--llama-bench PATH] [--tern ./tern[,OTHER]] [--shape 1b] [--prompt 512] [--tokens 32] [--rounds 5]
               [--threads 2] [--isas amx_bf16,amx_bf16+copied,avx512_vnni,avx512_bf16] [--model FOLDER] [--json result.json]

A model with random bf16 weights, of the shape named in shapes.py (a Llama of 1.1B, or a mixture of experts shaped as Mixtral,
Qwen3-MoE or DeepSeek-V2, which GGUF does not get), is written once, exported by `tern export` to GGUF for llama.cpp, and read
by everyone from a warm page cache. Round after round every competitor runs once, in turns: tern under each instruction set
named (`+copied`: its weights in memory of its own, `--weights copied`), another build of tern where two are named,
llama.cpp's `llama-bench` (whose own matrix unit is off in a plain build). Before and after each of them `read_rate`
(`ninja read_rate`), plain streaming reads of the model's bytes by as many threads, five rounds from the page cache and five from
huge pages: the limits of decoding; `+copied` is held to the second. Of the rounds the median, with the least and the most beside
it. Where a memory's rate moves from second to second, a mean of many tokens says little beside the best of ten reads, so like is
held to like: the median token to the median read (of those around the run, the faster), the fastest token to the fastest read. Of a mixture a decoded token reads the chosen
experts alone: the share is of those bytes. --model keeps the model for another time. Needs numpy.
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
sys.path.insert(0, str(HERE))
from shapes import MODELS, read_by_a_token, write_model  # noqa: E402


def make_model(a, folder):
    """A Hugging Face directory, its tokenizer trained on the texts of this repository, and a prompt."""
    write_model(a.shape, folder)
    texts = folder.parent / "text.txt"
    texts.write_text("".join(p.read_text(errors="replace") for p in sorted((HERE.parent.parent / "docs").glob("*.md"))))
    run(a.tern, "tokenize", "--train", "--input", texts, "--output", folder, "--vocab-size", 4096)
    ids = json.loads(run(a.tern, "tokenize", folder, "--input", texts, "--json"))["token_ids"][: a.prompt]
    prompt = run(a.tern, "tokenize", folder, "--decode", "--text", " ".join(map(str, ids)))
    (folder.parent / "prompt.txt").write_text(prompt)


def run(*command, isa=None):
    environment = {**os.environ, **({"TERN_ISA": isa} if isa else {})}
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, text=True)
    if done.returncode != 0:
        sys.exit(f"compare: {' '.join(map(str, command))} ended with {done.returncode}: {done.stderr[-500:]}")
    return done.stdout


def run_tern(a, work, tern, isa):
    isa, _, weights = isa.partition("+")
    out = json.loads(run(tern, "generate", work / "model", "--prompt-file", work / "prompt.txt", "--max-tokens", a.tokens + 1,
                         "--temperature", 0, "--ignore-eos", "--weights", weights or "mapped", "--threads", a.threads, "--json", isa=isa))
    t = out["timings"]
    each = t["decode_step_s"]
    return {"prompt": t["prefill_tokens_per_s"], "decode": t["decode_tokens_per_s"], "least_s": each["least"], "median_s": each["median"], "first": t["load_s"] + t["first_token_s"],
            "tokens": out["prompt_tokens"]}


def run_llama(a, work):
    rows = json.loads(run(a.llama_bench, "-m", work / "model.gguf", "-p", a.prompt, "-n", a.tokens, "-t", a.threads, "-r", 1, "-o", "json"))
    by = {"prompt" if r["n_prompt"] else "decode": r["avg_ts"] for r in rows}
    return {**by, "first": None}


def copied(isa):
    return int(isa.endswith("+copied"))


def summarize(rows, key):
    values = [r[key] for r in rows]
    return {"median": statistics.median(values), "least": min(values), "most": max(values)} if None not in values else None


def table(results, read_rate, shape):
    parameters, of_prompt = read_by_a_token(shape), read_by_a_token(shape, head=False)
    print("\nplain read of the weights, best of all rounds: {:.1f} GB/s from the page cache, {:.1f} from huge pages\n".format(*read_rate))
    print(f"one token reads {2 * parameters / 1e6:,.0f} MB\n")
    print("| | prompt tokens/s (median, least – most) | GFLOP/s of products | decoded tokens/s | GB/s | median token : median read | fastest : fastest | mean : best read of all | first token, s |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name, r in results.items():
        cell = lambda s, digits, unit="": "–" if s is None else f"{s['median']:,.{digits}f}{unit} ({s['least']:,.{digits}f} – {s['most']:,.{digits}f})"
        rate = r["decode"]["median"] * 2 * parameters / 1e9
        print(f"| {name} | {cell(r['prompt'], 0)} | {r['prompt']['median'] * 2 * of_prompt / 1e9:,.0f} | {cell(r['decode'], 2)} | {rate:.1f} "
              f"| {cell(r['share'], 0, ' %')} | {cell(r['best_share'], 0, ' %')} | {100 * rate / read_rate[copied(name)]:.0f} % | {cell(r['first'], 2)} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--read-rate", required=True)
    parser.add_argument("--llama-bench")
    parser.add_argument("--tern", default=str(HERE.parent.parent / "tern"))
    parser.add_argument("--shape", default="1b", choices=MODELS)
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--isas", default="amx_bf16,amx_bf16+copied,avx512_vnni,avx512_bf16")
    parser.add_argument("--model")
    parser.add_argument("--json")
    a = parser.parse_args()
    terns = a.tern.split(",")
    a.tern = terns[0]
    if a.llama_bench and a.shape != "1b":
        parser.error(f"--llama-bench: tern writes no GGUF of {a.shape}")
    with tempfile.TemporaryDirectory() as temporary:
        work = pathlib.Path(a.model or temporary)
        work.mkdir(exist_ok=True)
        if not (work / "prompt.txt").exists():
            make_model(a, work / "model")
        if a.llama_bench and not (work / "model.gguf").exists():
            run(a.tern, "export", work / "model", "--format", "gguf", "--output", work / "model.gguf")
        weights = work / "model" / "model.safetensors"
        runs = {(tern, isa): [] for isa in a.isas.split(",") for tern in terns}
        read = lambda: [float(rate) for rate in run(a.read_rate, weights, a.threads, 5).split()]
        token_gb = 2 * read_by_a_token(a.shape) / 1e9
        if a.llama_bench:
            runs["llama.cpp", ""] = []
        reads = [read()]
        for _ in range(a.rounds):
            for (name, isa), rows in runs.items():
                rows.append(run_llama(a, work) if name == "llama.cpp" else run_tern(a, work, name, isa))
                reads.append(read())
                around = lambda column: max(rates[column] for rates in reads[-2:])
                row, kind = rows[-1], copied(isa)
                row["best_share"] = 100 * token_gb / row["least_s"] / around(kind) if "least_s" in row else None
                row["share"] = 100 * (token_gb / row["median_s"] if "median_s" in row else row["decode"] * token_gb) / around(2 + kind)
                print(name, isa, rows[-1], file=sys.stderr)
    runs = {(name if len(terns) > 1 else name.replace(a.tern, "tern")) + f" {isa}": rows for (name, isa), rows in runs.items()}
    results = {name: {key: summarize(rows, key) for key in ("prompt", "decode", "share", "best_share", "first")} for name, rows in runs.items()}
    table(results, [max(rates) for rates in list(zip(*reads))[:2]], a.shape)
    if a.json:
        settings = {key: value for key, value in vars(a).items() if key not in ("tern", "read_rate", "llama_bench", "model", "json")}
        pathlib.Path(a.json).write_text(json.dumps({"settings": settings, "reads_gb_per_s": reads, "results": results, "runs": runs}, indent=1) + "\n")


if __name__ == "__main__":
    main()
