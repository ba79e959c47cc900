#!/usr/bin/env python3
"""Ranks of which some lie: ByzSGDm and ByzSGDnm x aggregators x attacks x batch, at a fixed number of gradients.

Of eight ranks two attack (--ranks, --liars: ALIE is a mean of the others unless nearly half lie). The number of sequences is fixed, so
that larger batches are fewer steps. The rate is the best of a grid for each method and batch under the mean without an attack (what a
person would tune), three seeds then. The same command goes on where it was stopped.

  benchmarks/updates/liars.py --tern build/release/bin/tern --folder DIR [--quick | --sample]
"""

import math
import shutil

import study

BETA = 0.9
METHODS = {"m": ["--optimizer", "sgd", "--momentum", 0, "--clip", 0, "--weight-decay", 0],
           "nm": ["--optimizer", "sngm", "--momentum", 0, "--weight-decay", 0]}


def main():
    parser = study.parser(__doc__)
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--liars", type=int, default=2)
    given = parser.parse_args()
    small = given.quick or given.sample
    samples = 12 if given.sample else 96 if given.quick else 3200  # of each rank, over all steps
    batches = [2] if given.sample else [1, 4] if given.quick else [1, 4, 16, 64]
    rates = {"m": [1.0], "nm": [0.3]} if given.sample else {"m": [0.125, 0.5, 2.0], "nm": [0.025, 0.1, 0.4]}
    if not small:
        rates = {"m": [0.125, 0.25, 0.5, 1.0, 2.0, 4.0], "nm": [0.025, 0.05, 0.1, 0.2, 0.4, 0.8]}
    seeds = [1] if given.sample else [1, 2, 3]
    aggregators = ["mean", "geometric-median", "trimmed-mean"] if small else [
        "mean", "krum", "median", "trimmed-mean", "geometric-median", "centered-clipping"]
    attacks = ["none", "alie", "bit-flip"] if small else ["none", "alie", "inner-product", "bit-flip", "label-flip", "garbage"]
    mixes = ["none"] if small else ["none", "nearest"]
    if given.sample:
        shutil.rmtree(given.folder, ignore_errors=True)
    runs = study.Study(given.tern, given.folder, 2000, 64)

    def loss(method, batch, rate, aggregator, attack, mix, seed):
        name = f"{method}-{batch}-{rate}-{aggregator}-{attack}-{mix}-{seed}"
        if (given.ranks, given.liars) != (8, 2):
            name += f"-{given.liars}of{given.ranks}"
        steps = samples // batch
        words = ["--ranks", given.ranks, "--batch", given.ranks * batch, "--learning-rate", rate, "--seed", seed, *METHODS[method],
                 "--aggregator", aggregator, "--local-momentum", BETA]
        if aggregator != "mean":
            words += ["--byzantine", given.liars, "--mix", mix]
        if attack != "none":
            words += ["--attack", attack, "--attackers", given.liars]
        return runs.loss(runs.run(name, steps, 1, *words)[1])

    head = ["method, sequences of a rank and step", "rate", "aggregator", *attacks]
    rows, curves = [], {attack: {} for attack in attacks}
    for method in METHODS:
        for batch in batches:
            tuned = {rate: loss(method, batch, rate, "mean", "none", "none", 1) for rate in rates[method]}
            rate = min(tuned, key=tuned.get)
            for aggregator in aggregators:
                for mix in mixes if aggregator != "mean" else ["none"]:
                    named, cells = aggregator if mix == "none" else f"{aggregator} of nearest", []
                    for attack in attacks:
                        losses = [loss(method, batch, rate, aggregator, attack, mix, seed) for seed in seeds]
                        cells.append("diverged" if math.inf in losses else study.spread(losses))
                        curves[attack].setdefault(f"{method}, {named}", []).append((math.log2(batch), sum(losses) / len(losses)))
                    rows.append([f"{method}, {batch}", rate, named, *cells])
    print(f"{given.ranks} ranks, {given.liars} of them attack; {samples} sequences of 64 tokens to a rank; held-out loss\n")
    study.table(head, rows)
    for attack, each in curves.items():
        study.plot(runs.folder / f"{attack}.svg", f"Held-out loss by batch, attack: {attack}", "log2 of a rank's sequences of a step", each)
    print(f"\nPlots: {', '.join(f'{runs.folder}/{attack}.svg' for attack in attacks)}")


if __name__ == "__main__":
    main()
