#!/usr/bin/env python3
"""Ranks that exchange rows inside passes, beside one process: attention over shared rows (ring, Ulysses), and shared experts.

    exchange.py [--tern ./tern] [--dtypes f32] [--seq 2048] [--rounds 5] [--seconds 15] [--quick] [--results exchange.jsonl]

Rows: the 15M model on sequences of --seq tokens, two ranks that share out each sequence by --context-by ring and by ulysses. Experts: the
mixture of 8 experts with the dense 7M model's FLOPs, on sequences of 256, two ranks that have four experts of each layer each; beside them
two replicas, which exchange nothing in their passes. Both have 4,096 tokens a step. The ranks are processes of one thread, one process has
two threads. In each round everyone trains once; of a run the median step after the warm-up counts, of the rounds the median, with the least
and the most, and the ratio to one process of the same round. Bytes a step are those that leave by the loopback, of both ranks, headers and
what the run sends at its start and end among them. A run that is in --results is not done again, so a stopped script goes on. On a busy machine the figures mean nothing.
"""
import argparse
import json
import pathlib
import shutil
import statistics
import sys
import tempfile

from runs import BATCH, ROOT, SEQ, Results, launched, make, middle, stamp, tern_run, train_words

SHARED_ROWS = ["--context-parallel", 2, "--context-by"]
RUNS = {"15m": {"one process": None, "ulysses": [*SHARED_ROWS, "ulysses"], "ring": [*SHARED_ROWS, "ring"]},
        "7m-8x2": {"one process": None, "replicas": [], "experts": ["--expert-parallel", 2, "--capacity-factor", 2]}}


def make_for(case, folder, seq):
    """The case, with positions for sequences of so many tokens."""
    make(case, folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "max_position_embeddings": seq}, indent=2) + "\n")


def one(a, case, more, dtype, seq, work):
    threads, out = (2 if more is None else 1), work / "out"
    words = train_words(a.tern, work / case, out, a.seconds, ["--dtype", dtype, "--threads", threads, "--seq", seq, "--batch", BATCH * SEQ // seq,
                                                              *(more or [])])
    row = tern_run(words if more is None else launched(a.tern, words, 2), out, work / "cache")
    return {**row, "tokens_per_s": BATCH * SEQ / row["step_s"]}


def table(case, dtype, seq, rows):
    print(f"\n{case}, {dtype}, {BATCH * SEQ // seq} × {seq} tokens a step, {stamp()}\n\n"
          "| | tokens/s (median) | least – most | : one process | most resident MiB | MB sent a step |\n|---|---|---|---|---|---|")
    for name, of_name in rows.items():
        if not of_name:
            continue
        rate, least, most = middle(list(of_name.values()), "tokens_per_s")
        ratios = [row["tokens_per_s"] / rows["one process"][turn]["tokens_per_s"] for turn, row in of_name.items() if turn in rows["one process"]]
        told = f"{statistics.median(ratios):.2f} ({min(ratios):.2f} – {max(ratios):.2f})" if ratios and name != "one process" else ""
        print(f"| {name} | {rate:.0f} | {least:.0f} – {most:.0f} | {told} | {middle(list(of_name.values()), 'memory_bytes')[2] / 2**20:.0f} | "
              f"{middle(list(of_name.values()), 'wire_bytes')[0] / 1e6:.1f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tern", default=str(ROOT / "build/release/bin/tern"))
    parser.add_argument("--dtypes", default="f32")
    parser.add_argument("--seq", type=int, default=2048, help="of the shared rows: a multiple of 4 that divides 4,096")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=15)
    parser.add_argument("--quick", action="store_true", help="one round of 4 seconds: whether it runs")
    parser.add_argument("--results", default="exchange.jsonl")
    a = parser.parse_args()
    if a.seq < 4 or a.seq % 4 or BATCH * SEQ % a.seq:
        parser.error(f"--seq {a.seq}: choose a divisor of {BATCH * SEQ} that 4 divides")
    if a.quick:
        a.rounds, a.seconds = 1, 4
    results, work = Results(a.results), pathlib.Path(tempfile.mkdtemp())
    seqs = {"15m": a.seq, "7m-8x2": SEQ}
    rows = {(case, dtype): {name: {} for name in RUNS[case]} for case in RUNS for dtype in a.dtypes.split(",")}
    try:
        for case in RUNS:
            make_for(case, work / case, seqs[case])
        for turn in range(a.rounds):
            for (case, dtype), of_case in rows.items():
                for name, more in RUNS[case].items():
                    key = f"{case} {dtype} {seqs[case]} tokens {name} {a.seconds} s round {turn}"
                    row = results.tried(key, lambda c=case, m=more, d=dtype: one(a, c, m, d, seqs[c], work))
                    if row:
                        of_case[name][turn] = row
                        print(f"{key}: {row['tokens_per_s']:.0f} tokens/s", file=sys.stderr)
    finally:  # of a script that is stopped what there is
        shutil.rmtree(work, ignore_errors=True)
        for (case, dtype), of_case in rows.items():
            table(case, dtype, seqs[case], of_case)


if __name__ == "__main__":
    main()
