#!/usr/bin/env python3
"""Training speed and memory of tern and PyTorch in one interleaved run: a table on standard output, JSON in a file.

    compare.py [--tern ./tern] [--python python-with-torch] [--cases 15m,7m,7m-8x2,7m-32x4] [--rounds 3] [--seconds 15] [--threads 2]
               [--only tern,compile-bf16,...] [--json result.json]

Round after round every competitor trains once, in turns, so that whatever else the machine does meets all of them. Of each run
the median step after the warm-up counts, of the rounds the median, with the least and the most beside it. Before each of
tern's runs the machine's limit is measured: the product of 1,024³ matrices in the run's type by tern's multiplier.
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
from make_case import BATCH, CASES, SEQ, make  # noqa: E402

COMPETITORS = ["tern-bf16", "tern-f32", "compile-bf16", "compile-f32", "eager-bf16", "eager-f32"]


def run_tern(a, case, dtype, work):
    """Steps for a.seconds: --max-seconds ends the run as Ctrl-C would, with exit code 75."""
    out = work / "out"
    subprocess.run(["rm", "-rf", out, work / "cache"], check=True)
    command = [a.tern, "train", work / case / "config.json", "--from-scratch", "--data", work / case / "data.tokens",
               "--output", out, "--seq", SEQ, "--batch", BATCH, "--steps", 100000, "--dtype", dtype, "--threads", a.threads,
               "--checkpoint-every", 0, "--log-every", 1, "--max-seconds", a.seconds, "--json"]
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, env={**os.environ, "XDG_CACHE_HOME": str(work / "cache")})
    if done.returncode != 75:
        sys.exit(f"compare: {' '.join(map(str, command))} ended with {done.returncode}, expected 75")
    summary = json.loads(done.stdout)
    rows = [json.loads(line) for line in (out / "logs" / "metrics.jsonl").read_text().splitlines()]
    rates = [r["perf/tokens_per_s"] for r in rows if "perf/tokens_per_s" in r]
    return {"tokens_per_s": rates[2:] or rates, "peak_rss_bytes": summary["peak_resident_bytes"],
            "limit_flops_per_s": summary["peak_flops_per_s"],
            "flops_per_token": summary["flops_per_s"] / summary["tokens_per_s"], "loss": summary["loss"]}


def run_peer(a, case, mode, dtype, work):
    command = [a.python, HERE / "peer.py", case, mode, dtype, a.seconds, a.threads]
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(work / "inductor")}
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, env=environment, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def run_one(a, case, name, work):
    kind, dtype = name.split("-")
    result = run_tern(a, case, dtype, work) if kind == "tern" else run_peer(a, case, kind, dtype, work)
    result["median"] = statistics.median(result["tokens_per_s"])
    print(f"{case} {name:<13} {result['median']:8.0f} tokens/s, {result['peak_rss_bytes'] / 2**20:6.0f} MiB", file=sys.stderr)
    return result


def summarize(runs):
    medians = [r["median"] for r in runs]
    return {"tokens_per_s": statistics.median(medians), "least": min(medians), "most": max(medians),
            "peak_rss_bytes": max(r["peak_rss_bytes"] for r in runs),
            "limit_flops_per_s": [r["limit_flops_per_s"] for r in runs if "limit_flops_per_s" in r],
            "flops_per_token": runs[0].get("flops_per_token")}


def table(results):
    for case, competitors in results.items():
        print(f"\n{case}\n| | tokens/s (median) | least – most | peak resident MiB | share of limit |\n|---|---|---|---|---|")
        for name, s in competitors.items():
            share = "–"
            if s["limit_flops_per_s"]:
                share = f"{100 * s['tokens_per_s'] * s['flops_per_token'] / statistics.median(s['limit_flops_per_s']):.0f} %"
            print(f"| {name} | {s['tokens_per_s']:,.0f} | {s['least']:,.0f} – {s['most']:,.0f} | {s['peak_rss_bytes'] / 2**20:,.0f} | {share} |")
        peers = {n: s for n, s in competitors.items() if not n.startswith("tern")}
        mine = {n: s for n, s in competitors.items() if n.startswith("tern")}
        if peers and mine:
            best, ours = (max(g, key=lambda n: g[n]["tokens_per_s"]) for g in (peers, mine))
            print(f"{ours} : {best} = {mine[ours]['tokens_per_s'] / peers[best]['tokens_per_s']:.2f} in speed, "
                  f"{mine[ours]['peak_rss_bytes'] / peers[best]['peak_rss_bytes']:.2f} in memory")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tern", default=str(HERE.parent.parent / "tern"))
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", default=",".join(COMPETITORS))
    parser.add_argument("--json")
    a = parser.parse_args()
    if unknown := set(a.only.split(",")) - set(COMPETITORS):
        sys.exit(f"compare: unknown {', '.join(unknown)}; known are {', '.join(COMPETITORS)}")
    runs = {case: {name: [] for name in a.only.split(",")} for case in a.cases.split(",")}
    with tempfile.TemporaryDirectory() as directory:
        work = pathlib.Path(directory)
        for case in runs:
            make(case, work / case)
        for _ in range(a.rounds):
            for case, competitors in runs.items():
                for name in competitors:
                    competitors[name].append(run_one(a, case, name, work))
    results = {case: {n: summarize(r) for n, r in competitors.items()} for case, competitors in runs.items()}
    table(results)
    if a.json:
        pathlib.Path(a.json).write_text(json.dumps({"settings": vars(a), "results": results, "runs": runs}, indent=1) + "\n")


if __name__ == "__main__":
    main()
