#!/usr/bin/env python3
"""Workers of which one in eight is ten times slower: asynchronous rules and synchronous momentum, against receipts and virtual time.

Eight workers' service times (lognormal, one of them ten times longer) give an order of arrivals on a virtual clock; tern train --async
--replay trains in that order. Synchronous steps wait for the slowest of all. All rules get the same gradients' number and the same grid
of effective rates η/(1-β) per gradient; three seeds at the best one. The same command goes on where it was stopped.

  benchmarks/updates/late.py --tern build/release/bin/tern --folder DIR [--quick | --sample]
"""

import heapq
import random
import shutil

import study

WORKERS, SLOW, BETA = 8, 10.0, 0.9
RULES = ["ormo", "ormo-da", "momentum", "asgd"]


def arrivals(receipts, seed):
    """Workers in the order in which they finish, and when; the mean service time of a fast one is 1."""
    draw = random.Random(seed)
    service = lambda k: (SLOW if k == 0 else 1.0) * draw.lognormvariate(0, 0.2)
    clock = [(service(k), k) for k in range(WORKERS)]
    heapq.heapify(clock)
    order = []
    for _ in range(receipts):
        now, k = heapq.heappop(clock)
        order.append((now, k))
        heapq.heappush(clock, (now + service(k), k))
    return order


def synchronous_times(steps, seed):
    draw, now, times = random.Random(seed), 0.0, []
    for _ in range(steps):
        now += max((SLOW if k == 0 else 1.0) * draw.lognormvariate(0, 0.2) for k in range(WORKERS))
        times.append(now)
    return times


def main():
    parser = study.parser(__doc__)
    given = parser.parse_args()
    receipts = 48 if given.sample else 400 if given.quick else 8000
    rates = [0.1] if given.sample else [0.00625, 0.0125, 0.025, 0.05, 0.1] if given.quick else [0.0125, 0.025, 0.05, 0.1, 0.2, 0.4]
    seeds = [1] if given.sample else [1, 2, 3]
    if given.sample:
        shutil.rmtree(given.folder, ignore_errors=True)
    runs = study.Study(given.tern, given.folder, 2000, 64)
    evaluations = 4 if given.sample else 10 if given.quick else 20

    def one(rule, rate, seed):
        """(receipts, time, loss) of the evaluations."""
        name = f"{rule}-{rate}-{seed}"
        if rule == "synchronous":
            rows, printed = runs.run(name, receipts // WORKERS, evaluations, "--ranks", WORKERS, "--batch", 2 * WORKERS,
                                     "--seed", seed, "--optimizer", "sgd", "--momentum", BETA, "--clip", 0,
                                     "--weight-decay", 0, "--learning-rate", WORKERS * rate * (1 - BETA))
            times, each = synchronous_times(receipts // WORKERS, seed), WORKERS
        else:
            order = arrivals(receipts, seed)
            path = runs.folder / f"order-{receipts}-{seed}.txt"
            path.write_text("".join(f"{k}\n" for _, k in order))
            momentum = [] if rule == "asgd" else ["--momentum", BETA]
            rows, printed = runs.run(name, receipts, evaluations, "--async", "--workers", WORKERS, "--async-rule", rule,
                                     "--batch", 2, "--seed", seed, "--clip", 0, "--weight-decay", 0, "--replay", path,
                                     "--learning-rate", rate if rule == "asgd" else rate * (1 - BETA), *momentum)
            times, each = [now for now, _ in order], 1
        if not printed:
            return [(receipts, float("inf"), float("inf"))]
        return [(row["step"] * each, times[row["step"] - 1], row["eval/held-out/loss"])
                for row in rows if "eval/held-out/loss" in row]

    best, rows = {}, []
    for rule in ["synchronous", *RULES]:
        last = {rate: one(rule, rate, 1)[-1][2] for rate in rates}
        best[rule] = min(last, key=last.get)
    curves = {rule: [one(rule, best[rule], seed) for seed in seeds] for rule in ["synchronous", *RULES]}
    goals = [1.02 * c[-1][2] for c in curves["synchronous"]]  # seeds differ by more than rules do: each has its own
    for rule, each in curves.items():
        times = [next((time for _, time, loss in c if loss <= goal), None) for c, goal in zip(each, goals)]
        rows.append([rule, best[rule], study.spread([c[-1][2] for c in each]), f"{each[0][-1][1]:.0f}",
                     study.reached(times)])
    for across, name, title, unit in ((0, "by-receipts.svg", "Held-out loss by gradients", "gradients"),
                                      (1, "by-time.svg", "Held-out loss by virtual time", "service times of a fast worker")):
        study.plot(runs.folder / name, title, unit, {rule: study.mean_curve(each, across) for rule, each in curves.items()})
    print(f"{WORKERS} workers, one {SLOW:g} times slower; {receipts} gradients of 128 tokens; goal of each seed: 1.02 times its synchronous loss\n")
    study.table(["rule", "best η/(1-β)", "held-out loss after all gradients", "virtual time of all", "virtual time to the goal"],
                rows)
    delays = [0] * WORKERS
    order = arrivals(receipts, 1)
    sent = {}
    for t, (_, k) in enumerate(order):
        delays[k] = max(delays[k], t - sent.get(k, 0))
        sent[k] = t + 1
    print(f"\nLongest delays in receipts: the slow worker {delays[0]}, others {max(delays[1:])}.\nPlots: {runs.folder}/by-receipts.svg, by-time.svg")


if __name__ == "__main__":
    main()
