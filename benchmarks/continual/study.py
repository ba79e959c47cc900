#!/usr/bin/env python3
"""Six domains learned one after another, by every method for streams, in several orders and with several seeds.

    TERN_DATA=… benchmarks/continual/study.py --work DIR [--methods seqlora,inflora,…] [--orders 3] [--seeds 3] [--steps 60]

Makes texts and TASKS.toml files in DIR, runs `tern adapt --stream` for each, and prints a table of AP, FT, BWT and FWT (bits per
byte; mean and spread over orders and seeds), bytes kept and seconds. What is done is not done again: a study that was
stopped goes on with the same command. Needs nothing but Python's library.
"""
import argparse, json, os, pathlib, statistics, subprocess, sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
METHODS = ["seqlora", "replay", "ewc", "olora", "inflora", "multitask"]
DOMAINS = {"novel": "text/frankenstein.txt", "plays": "text/tinyshakespeare.txt", "wiki": "text/calib_wiki.txt",
           "code": "text/calib_code.txt", "languages": "text/calib_multilingual.txt", "sums": "tasks/gsm8k/test.jsonl"}
ORDERS = [["novel", "plays", "wiki", "code", "languages", "sums"], ["sums", "languages", "code", "wiki", "plays", "novel"],
          ["wiki", "sums", "novel", "languages", "plays", "code"]]


def text_of(path: pathlib.Path) -> str:
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".jsonl":
        return text
    rows = [json.loads(line) for line in text.splitlines()]
    return "".join(f"{r['question']}\n{r['answer']}\n\n" for r in rows)


def make_texts(work: pathlib.Path, data: pathlib.Path) -> None:
    """The first 90 % of at most 280 KB of each domain are learned, the rest is the test."""
    for name, path in DOMAINS.items():
        if (work / f"{name}_test.txt").exists():
            continue
        lines = text_of(data / path).splitlines(keepends=True)
        kept, size = [], 0
        for line in lines:
            if size > 280_000:
                break
            kept.append(line)
            size += len(line.encode())
        cut = len(kept) * 9 // 10
        (work / f"{name}.txt").write_text("".join(kept[:cut]), encoding="utf-8")
        (work / f"{name}_test.txt").write_text("".join(kept[cut:]), encoding="utf-8")


def run(args, order: int, method: str, seed: int) -> dict:
    work = args.work
    tasks = work / f"order{order}.toml"
    tasks.write_text("".join(f'[[task]]\nname = "{n}"\ndata = "{n}.txt"\ntest = "{n}_test.txt"\n\n' for n in ORDERS[order]))
    out = work / f"order{order}-{method}-seed{seed}-{args.steps}"
    if not (out / "result.json").exists():
        command = [args.tern, "adapt", args.model, "--stream", tasks, "--method", method, "--output", out, "--seed", seed,
                   "--rank", 8, "--alpha", 8, "--seq", 128, "--batch", 8, "--steps", args.steps, "--learning-rate", args.rate,
                   "--schedule", "constant", "--warmup-steps", 0, "--eval-batches", 8, "--json"]
        subprocess.run([str(c) for c in command], check=True, stdout=subprocess.DEVNULL)
    return json.loads((out / "result.json").read_text())


def spread(values: list) -> str:
    values = [v for v in values if v is not None]
    if not values:
        return "-"
    error = statistics.stdev(values) if len(values) > 1 else 0
    return f"{statistics.mean(values):+.3f} ± {error:.3f}"


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--work", type=pathlib.Path, required=True)
    p.add_argument("--tern", default=ROOT / "build/release/bin/tern")
    p.add_argument("--model", default=ROOT / "examples/novels-6m")
    p.add_argument("--methods", default=",".join(METHODS))
    p.add_argument("--orders", type=int, default=3)
    p.add_argument("--seeds", type=int, default=3)
    p.add_argument("--steps", type=int, default=60)
    p.add_argument("--rate", default="1e-3")
    args = p.parse_args()
    data = os.environ.get("TERN_DATA")
    if not data:
        print("study: TERN_DATA is not set; it names the folder of texts", file=sys.stderr)
        return 2
    args.work.mkdir(parents=True, exist_ok=True)
    make_texts(args.work, pathlib.Path(data))
    print("| method | AP | FT | BWT | FWT | kept, MiB | seconds |\n|---|---|---|---|---|---|---|")
    for method in args.methods.split(","):
        results = [run(args, o, method, s + 1) for o in range(args.orders) for s in range(args.seeds)]
        ap = [r["AP"] if "AP" in r else statistics.mean(r["together"]) for r in results]
        kept = [r["costs"][-1]["kept_bytes"] / 2**20 for r in results if r.get("costs")]
        seconds = [sum(c["seconds"] for c in r["costs"]) for r in results if r.get("costs")]
        print(f"| {method} | {spread(ap)} | " + " | ".join(spread([r.get(k) for r in results]) for k in ("FT", "BWT", "FWT")) +
              f" | {statistics.mean(kept):.2f} | {statistics.mean(seconds):.0f} |" if kept else
              f"| {method} | {spread(ap)} | - | - | - | - | - |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
