#!/usr/bin/env python3
"""What two ranks of one thread take beside one of two: tern as threads and as processes, PyTorch under DDP and FSDP on Gloo, in turns.

    overhead.py [--tern ./tern] [--python PYTHON-WITH-TORCH] [--case 15m] [--dtypes f32,bf16] [--rounds 5] [--seconds 15] [--quick]
                [--results overhead.jsonl]

Overhead = step(2 ranks × 1 thread) / step(1 × 2 threads) − 1 of the same round. In each round everyone trains once; of a run the median
step after the warm-up counts, of the rounds the median, with the least and the most. Memory is that of all processes at their highest;
bytes a step are those that leave by the loopback. A run that is in --results is not done again, so a stopped script goes on. On a busy
machine the figures mean nothing: rounds differ by more than what is asked for.
"""
import argparse
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import pathlib
import json
import statistics

from runs import BATCH, HERE, ROOT, SEQ, Results, Watch, launched, make, middle, sent_by, stamp, tern_run, train_words

OURS = {"one": [], "virtual": ["--ranks", 2], "processes": [], "virtual zero 3": ["--ranks", 2, "--zero", 3], "processes zero 3": ["--zero", 3]}


def of_tern(a, kind, dtype, work):
    threads, out = (2 if kind == "one" else 1), work / "out"
    words = train_words(a.tern, work / a.case, out, a.seconds, ["--dtype", dtype, "--threads", threads, *OURS[kind]])
    return tern_run(launched(a.tern, words, 2) if kind.startswith("processes") else words, out, work / "cache")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return str(s.getsockname()[1])


def of_torch(a, kind, mode, dtype, work):
    """None where PyTorch cannot run it; it says why on standard error."""
    ranks, threads = (1, 2) if kind == "one" else (2, 1)
    words = [a.python, str(HERE / "peer_ranks.py"), a.case, mode, dtype, kind, str(a.seconds), str(threads)]
    common = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port(), "WORLD_SIZE": str(ranks), "OMP_NUM_THREADS": str(threads),
              "TORCHINDUCTOR_CACHE_DIR": str(work / "inductor"), "GLOO_SOCKET_IFNAME": "lo"}
    before = sent_by("lo")
    processes = [subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**common, "RANK": str(r)})
                 for r in range(ranks)]
    watches = [Watch(p.pid) for p in processes]
    said = [p.communicate() for p in processes]
    memory = sum(w.end() for w in watches)
    if any(p.returncode for p in processes):
        print(f"PyTorch does not run {kind} {mode} {dtype}: {said[0][1].strip().splitlines()[-1:]}", file=sys.stderr)
        return {"step_s": None}
    got = json.loads(said[0][0].splitlines()[-1])
    steps = [BATCH * SEQ / rate for rate in got["tokens_per_s"]]
    return {"step_s": statistics.median(steps), "steps": len(steps), "memory_bytes": memory, "loss": got["loss"], "version": got["version"],
            "wire_bytes": (sent_by("lo") - before) / (len(steps) + 2)}


def table(a, dtype, names, rows):
    print(f"\n{a.case}, {dtype}, {stamp()}\n\n| | ms a step (median) | least – most | overhead | resident MiB | MB sent a step |\n|---|---|---|---|---|---|")
    for name in names:
        if not rows[name]:
            continue
        if any(row["step_s"] is None for row in rows[name]):
            print(f"| {name} | does not run | | | | |")
            continue
        step, least, most = (1e3 * x for x in middle(rows[name], "step_s"))
        alone = rows[" ".join([*name.split()[:1], "one", *([name.split()[-1]] if name.startswith("torch") else [])])]
        over = [x["step_s"] / y["step_s"] - 1 for x, y in zip(rows[name], alone) if y["step_s"]]
        told = "" if " one" in name or not over else f"{100 * statistics.median(over):+.1f} %"
        print(f"| {name} | {step:.1f} | {least:.1f} – {most:.1f} | {told} | {middle(rows[name], 'memory_bytes')[2] / 2**20:.0f} | "
              f"{middle(rows[name], 'wire_bytes')[0] / 1e6:.1f} |")
    pairs = [("tern processes", "ddp"), ("tern processes zero 3", "fsdp"), ("tern one", "one")]
    for ours, kind in pairs:
        theirs = [n for n in names if n.startswith(f"torch {kind}") and rows[n] and all(r["step_s"] for r in rows[n])]
        if theirs and rows[ours]:
            best = min(theirs, key=lambda n: middle(rows[n], "step_s")[0])
            ratios = [y["step_s"] / x["step_s"] for x, y in zip(rows[ours], rows[best])]
            print(f"{ours} : {best} = {statistics.median(ratios):.2f} in tokens/s ({min(ratios):.2f} – {max(ratios):.2f})")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tern", default=str(ROOT / "build/release/bin/tern"))
    parser.add_argument("--python", help="one that has torch; without it tern alone")
    parser.add_argument("--case", default="15m")
    parser.add_argument("--dtypes", default="f32,bf16")
    parser.add_argument("--modes", default="eager,compile", help="of PyTorch")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=15)
    parser.add_argument("--quick", action="store_true", help="one round of 4 seconds, PyTorch eager: whether it runs")
    parser.add_argument("--results", default="overhead.jsonl")
    a = parser.parse_args()
    if a.quick:
        a.rounds, a.seconds, a.modes = 1, 4, "eager"
    results = Results(a.results)
    work = pathlib.Path(tempfile.mkdtemp())
    try:
        make(a.case, work / a.case)
        for dtype in a.dtypes.split(","):
            runs = {f"tern {kind}": lambda k=kind, d=dtype: of_tern(a, k, d, work) for kind in OURS}
            for mode in a.modes.split(",") if a.python else []:
                for kind in ("one", "ddp", "fsdp"):
                    runs[f"torch {kind} {mode}"] = lambda k=kind, m=mode, d=dtype: of_torch(a, k, m, d, work)
            rows = {name: [] for name in runs}
            try:
                for turn in range(a.rounds):
                    for name, run in runs.items():
                        row = results.tried(f"{a.case} {dtype} {name} {a.seconds} s round {turn}", run)
                        if row:
                            rows[name].append(row)
                            print(f"{row['key']}: {1e3 * (row['step_s'] or 0):.1f} ms", file=sys.stderr)
            finally:  # of a script that is stopped what there is
                table(a, dtype, list(runs), rows)
    finally:
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main()
