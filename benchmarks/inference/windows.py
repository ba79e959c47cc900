#!/usr/bin/env python3
"""A model larger than its memory through the windows of other systems, beside tern's own choice of what stays, at equal memory.

    ninja -C build/release tern
    benchmarks/inference/windows.py --work DIR [--windows "blocks:2 layers:4,2"] [--rounds 3] [--tokens 14]

A window (`tern generate --stream-window`) keeps no weights: blocks:2 is TPI-LLM's, layers:K,STEP has Superpipeline's two parameters. tern's own choice gets as
`--memory` what the window's plan takes at its peak; what slots of one size waste of the window is left out of that, as a system that allocates block by
block would not need it. Reader, threads, kernels and the program are the same, so rows differ in what stays, what is lent and given back at a time, and
how far ahead is read. Each round runs every window and tern's own choice behind it, in turn; a run's time of a token is its median, a row has the median
over rounds, with the least and the most. Answers must be the same tokens. The page cache is passed by; a file system that refuses that is told by tern's own
line. Needs numpy, which writes the model's random numbers (355 MB in bf16, on the disk of --work).
"""
import argparse, collections, json, pathlib, statistics, sys

import batch_formula, shapes


def run(a: argparse.Namespace, *options) -> dict:
    return shapes.generate(a.tern, a.work / "model", a.tokens, *options, threads=a.threads)


def peak_of(out: dict) -> int:
    """What the plan of a window takes, without what its slots waste."""
    streaming, memory = out["streaming"], out["memory"]
    return memory["predicted_bytes"] + memory["program_bytes"] - (streaming["ring_bytes"] - streaming["window"]["bytes"])


def seconds_of_token(out: dict) -> float:
    return out["timings"]["decode_step_s"]["median"]


def row_of(name: str, memory: int, runs: list) -> dict:
    streams = [out["streaming"] for out in runs]
    return {"name": name, "memory_bytes": memory, "bytes_per_token": streams[0]["bytes_per_token"], "rates": [1 / seconds_of_token(out) for out in runs],
            "bound": statistics.median(s["bound_tokens_per_s"] for s in streams), "bound_by": collections.Counter(s["bound_by"] for s in streams).most_common(1)[0][0],
            "predicted": statistics.median(s["predicted_tokens_per_s"] for s in streams),
            "reached": statistics.median(s["reached"] for s in streams)}


def text_of(row: dict) -> str:
    rates = sorted(row["rates"])
    return (f"{row['name']:12}  {1e-6 * row['memory_bytes']:9.1f}  {1e-6 * row['bytes_per_token']:11.1f}  {row['bound']:11.2f} by {row['bound_by']:8}  {row['predicted']:15.2f}  "
            f"{statistics.median(rates):8.2f} ({rates[0]:.2f} – {rates[-1]:.2f})  {row['reached']:8.2f}")


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--work", type=pathlib.Path, required=True)
    p.add_argument("--tern", type=pathlib.Path, default=batch_formula.ROOT / "build/release/bin/tern")
    p.add_argument("--tokenizer", type=pathlib.Path, default=batch_formula.ROOT / "tests/golden/tokenizers/byte_level", help="of 703 tokens")
    p.add_argument("--windows", default="blocks:2 layers:2 layers:4,2 layers:8,4", help="as --stream-window takes them, with blanks between")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--tokens", type=int, default=14)
    p.add_argument("--threads", type=int, default=0)
    p.add_argument("--json", type=pathlib.Path)
    a = p.parse_args()
    batch_formula.write_case(a)
    windows, memory, runs, answers = a.windows.split(), {}, collections.defaultdict(list), set()
    for turn in range(a.rounds):
        for window in windows:
            out = run(a, "--stream-window", window)
            memory.setdefault(window, peak_of(out))
            own = run(a, "--memory", memory[window])
            if "streaming" not in own:
                sys.exit(f"{window}: in its memory nothing streams; fewer layers")
            for name, one in ((window, out), ("own", own)):
                runs[window, name].append(one)
                answers.add(tuple(one["token_ids"]))
                print(f"round {turn + 1}  {window:12} {name:12} {1 / seconds_of_token(one):.2f} tok/s, a disk of {1e-9 * one['streaming']['disk_bytes_per_s']:.2f} GB/s", file=sys.stderr, flush=True)
    print("               memory MB  read MB/tok  bound tok/s              predicted tok/s  measured (least – most)  of bound")
    rows = []
    for window in windows:
        pair = [row_of(name, memory[window], runs[window, name]) for name in (window, "own")]
        rows += [row | {"window": window} for row in pair]
        ratios = sorted(o / w for w, o in zip(pair[0]["rates"], pair[1]["rates"]))
        print(text_of(pair[0]))
        print(text_of(pair[1]) + f"  {statistics.median(ratios):.2f} times ({ratios[0]:.2f} – {ratios[-1]:.2f})")
    if a.json:
        a.json.write_text(json.dumps(rows, indent=1) + "\n")
    if len(answers) != 1:
        sys.exit(f"{len(answers)} different answers")
    print("all answers are the same tokens")


if __name__ == "__main__":
    main()
