#!/usr/bin/env python3
"""One step of AdamW and of Muon over 100 million f32 parameters: tern's beside PyTorch's, in turns, in one run.

step_rate (built from step_rate.cpp) is called once for each turn, PyTorch steps in a process of its own that stays: each turn is one
median of tern and one of PyTorch, so that a machine that is busy for a while is so for both. PyTorch's AdamW is the fused one; a step of
tern also clears the gradients, so beside it stands the same step with zero_grad(set_to_none=False) behind it. PyTorch's Muon computes
products in bf16, as it always does, so beside it stands the same step with f32 products, which is what tern computes; the rule
muon-f32 leaves the bf16 step out, which takes minutes on a processor without instructions for it.
Needs torch 2.9 or later.

  benchmarks/updates/step_rate.py --step-rate build/release/bin/step_rate [--side 2048 --count 24] [--turns 5] [--threads 2]
"""

import argparse
import os
import re
import statistics
import subprocess
import sys
import time

RULES = ["adamw", "muon"]


def peer(rule, side, count, rounds, threads):
    """Says when it is ready; for each line it steps so many times and answers with the median seconds. Without rounds the first step counts."""
    import torch

    torch.set_num_threads(threads)
    weights = [torch.nn.Parameter(torch.randn(side, side) * 0.01) for _ in range(count)]
    for weight in weights:
        weight.grad = torch.randn(side, side) * 0.001
    if rule.startswith("adamw"):
        optimizer = torch.optim.AdamW(weights, lr=1e-3, fused=True)
    else:
        if rule == "muon-f32":
            torch.bfloat16 = torch.float32  # its Newton–Schulz asks torch for the type at each call
        optimizer = torch.optim.Muon(weights, lr=1e-3, adjust_lr_fn="match_rms_adamw")
    if rounds:
        optimizer.step()  # makes the state
    print("ready", flush=True)
    for _ in sys.stdin:
        took = []
        for _ in range(max(1, rounds)):
            begin = time.perf_counter()
            optimizer.step()
            if rule == "adamw-cleared":
                optimizer.zero_grad(set_to_none=False)
            took.append(time.perf_counter() - begin)
        print(statistics.median(took), flush=True)


def tern_turn(given, rule):
    environment = dict(os.environ, OMP_NUM_THREADS=str(given.threads))
    line = subprocess.run([given.step_rate, str(given.side), str(given.side), str(given.rounds), str(given.count), rule], env=environment, check=True,
                          capture_output=True, text=True).stdout
    seconds = 1e-3 * float(re.search(r"([\d.]+) ms", line)[1])
    loop = float(re.search(r"([\d.]+) % of its rate", line)[1])
    product = re.search(r"([\d.]+) % of a product's rate", line)
    return seconds, loop, float(product[1]) if product else None


def start_peer(given, name):
    words = [sys.executable, __file__, "--peer", name, "--side", given.side, "--count", given.count, "--rounds", given.rounds,
             "--threads", given.threads]
    process = subprocess.Popen(list(map(str, words)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    process.stdout.readline()  # ready: what it does before would disturb the first turn
    return process


def peer_turn(process):
    process.stdin.write("go\n"), process.stdin.flush()
    return float(process.stdout.readline())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--step-rate")
    parser.add_argument("--side", type=int, default=2048)
    parser.add_argument("--count", type=int, default=24)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3,
                        help="steps of a turn, of which the median counts, behind one that does not; 0: that one counts")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rules", default=",".join(RULES))
    parser.add_argument("--peer", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.peer:
        return peer(given.peer, given.side, given.count, given.rounds, given.threads)
    if not given.step_rate:
        parser.error("--step-rate is needed")
    print(f"{given.count} matrices of {given.side} x {given.side}, f32, {given.threads} threads; {given.turns} turns of {given.rounds} steps\n")
    print("| rule | tern ms | of a plain loop's rate | of a product's rate | PyTorch ms | PyTorch / tern, by turn |\n" + "|---" * 6 + "|")
    for name in given.rules.split(","):
        rule = name.removesuffix("-f32")
        names = [name] if name == "muon-f32" else [rule, "muon-f32" if rule == "muon" else "adamw-cleared"]
        peers, turns = [start_peer(given, name) for name in names], []
        for _ in range(given.turns):
            turns.append((*tern_turn(given, rule), *(peer_turn(process) for process in peers)))
            print(f"{name}: " + ", ".join(f"{t:.3f}" for t in (turns[-1][0], *turns[-1][3:])) + " s", file=sys.stderr)
        for process in peers:
            process.stdin.close(), process.wait()
        middle = lambda k: statistics.median(t[k] for t in turns)
        product = "" if turns[0][2] is None else f"{middle(2):.0f} %"
        for k, name in enumerate(names, 3):
            ratios = ", ".join(f"{t[k] / t[0]:.2f}" for t in turns)
            print(f"| {name} | {1e3 * middle(0):.1f} | {middle(1):.0f} % | {product} | {1e3 * middle(k):.1f} | {ratios} |", flush=True)


if __name__ == "__main__":
    main()
