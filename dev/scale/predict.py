#!/usr/bin/env python3
"""A step on 1,024 and 16,384 ranks, predicted from what this machine's ranks and their collectives were measured to do.

    dev/scale/predict.py [--tern ./tern] [--profile FILE] [--model gpt2] [--ranks 2,64,1024,16384] [--sequences 8] [--seq 256] [--dtype f32]
                         [--latency-us 5] [--network RATE]

Without --profile `tern profile --ranks 2 --threads 1` measures one. The file's node of two ranks is repeated, and one level of network joins
the nodes; everything else stays as measured. For each number of ranks `tern plan` prices three meshes with as many sequences a rank, lowers
the plan and simulates the list of instructions for a replica; the table says the simulated step and tokens/s beside so many times those
of the first number of ranks. Nothing is run on more ranks than this machine has: the figures stand on the assumptions that are printed.
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

MESHES = {"replicas": "dp={all},pp=1,tp=1,cp=1,zero=0", "replicas, ZeRO 1": "dp={all},pp=1,tp=1,cp=1,zero=1",
          "4 stages × replicas": "dp={quarter},pp=4,tp=1,cp=1,zero=0"}


def run(*words):
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True)
    return (done.stdout, "") if done.returncode == 0 else ("", f"ended with {done.returncode}: {(done.stderr.strip().splitlines() or [''])[-1]}")


def cluster_of(toml, ranks, latency_us, rate):
    """The profile with its node so often, and the network between them."""
    each = int(re.search(r"^\[node\.this\]\n(?:.*\n)*?devices = (\d+)$", toml, re.M).group(1))
    if ranks % each:
        sys.exit(f"predict.py: {ranks} ranks are no whole nodes of {each}")
    nodes = ranks // each
    toml = re.sub(r"^devices_at_once = .*\n", "", toml, flags=re.M)  # the nodes to come have a core for each rank
    toml, changed = re.subn(r'(\[\[nodes\]\]\nnode = "this"\n)count = \d+', rf"\g<1>count = {nodes}", toml)
    if changed != 1:
        sys.exit("predict.py: the profile has no single [[nodes]] of its own node")
    if rate:
        toml = re.sub(r"(\[node\.this\.network\].*\n)bandwidth = .*", rf'\g<1>bandwidth = "{rate}"', toml)
    if nodes > 1:
        toml += f'\n[[network]]\nname = "assumed"\nnodes = {nodes}\nlatency = "{latency_us}us"\n'
    return toml, each


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tern", default="build/release/bin/tern")
    parser.add_argument("--profile", help="of tern profile --ranks N")
    parser.add_argument("--model", default="gpt2")
    parser.add_argument("--ranks", default="2,64,1024,16384")
    parser.add_argument("--sequences", type=int, default=8, help="of a rank in a step")
    parser.add_argument("--seq", type=int, default=256)
    parser.add_argument("--dtype", default="f32")
    parser.add_argument("--latency-us", type=float, default=5)
    parser.add_argument("--network", help="rate between nodes, such as 12.5GB/s; without it that between the ranks of one")
    a = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        here = pathlib.Path(folder)
        profile = pathlib.Path(a.profile) if a.profile else here / "profile.toml"
        if not a.profile:
            _, error = run(a.tern, "profile", "--ranks", 2, "--threads", 1, "--output", profile)
            if error:
                sys.exit(f"predict.py: tern profile: {error}")
        toml = profile.read_text()
        print(f"{a.model}, {a.dtype}, {a.sequences} sequences of {a.seq} a rank\n\n| ranks | mesh | simulated step, ms | tokens/s | of linear |\n|---|---|---|---|---|")
        first = {}
        for ranks in map(int, a.ranks.split(",")):
            text, each = cluster_of(toml, ranks, a.latency_us, a.network)
            (here / "cluster.toml").write_text(text)
            for name, fix in MESHES.items():
                if "quarter" in fix and ranks < 4:
                    continue
                micro = a.sequences if "quarter" not in fix else max(1, a.sequences // 2)
                _, error = run(a.tern, "plan", a.model, "--hardware", here / "cluster.toml", "--batch", ranks * a.sequences, "--seq", a.seq, "--dtype",
                               a.dtype, "--schedules", "1f1b", "--allow-recompute", "none", "--fix",
                               fix.format(all=ranks, quarter=ranks // 4) + f",micro-batch={micro}", "--output", here / "plan.json")
                if error:
                    print(f"| {ranks:,} | {name} | {error} | | |")
                    continue
                predicted = json.loads((here / "plan.json").read_text())["predicted"]
                program = predicted.get("program")
                step = (program or predicted)["step_ps"] * 1e-12
                rate = ranks * a.sequences * a.seq / step
                one = first.setdefault(name, rate / ranks)
                print(f"| {ranks:,} | {name}{'' if program else ' (priced, no list)'} | {1e3 * step:.1f} | {rate:,.0f} | {100 * rate / ranks / one:.0f} % |", flush=True)
    print(f"""
Assumed: nodes of {each} ranks like this one, each rank as fast as here with its neighbour at work; {a.network or 'between nodes the rate that was measured between the ranks of one'} for each
node at once, {a.latency_us:g} us a message, one level of network without oversubscription or contention; collectives as rings; no rank that is slower than the
others, no failure, no input that is late. Measured: products, attention, updates, memory, and the collectives of {each} ranks, whose one bandwidth and latency the
profile says the error of. Not known here: how any of that is on real networks; rates of threads of one process are not those of a wire.""")


if __name__ == "__main__":
    main()
