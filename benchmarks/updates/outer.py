#!/usr/bin/env python3
"""Ranks that rarely talk over slow links: bytes, and time to a loss.

Four ranks, each a process, whose messages leave at 200 Mbit/s (tern paces what a rank sends; all four share this machine's cores).
Summed gradients, LocalSGD, DiLoCo with and without codecs, Streaming DiLoCo, NoLoCo, CO2. The inner rule is AdamW for all; its rate is
the best of one log grid for each method in a fifth of the run, then three seeds. The same command goes on where it was stopped. Full
runs train a model of the shape of examples/novels-6m on books; --quick and --sample one of 0.1 million parameters on a text made here.

  benchmarks/updates/outer.py --tern build/release/bin/tern --folder DIR --books BOOKS     BOOKS: train.txt, valid.txt (or .xz)
  benchmarks/updates/outer.py --tern build/release/bin/tern --folder DIR --quick | --sample
"""

import argparse

import study

RANKS = 4


def methods(every):
    diloco = ["--outer", "diloco", "--outer-every", every]
    return {"summed gradients": [],
            "local-sgd": ["--outer", "local-sgd", "--outer-every", every],
            "diloco": diloco,
            "diloco, int8": [*diloco, "--outer-codec", "int8"],
            "diloco, int4": [*diloco, "--outer-codec", "int4"],
            "diloco, sign": [*diloco, "--outer-codec", "sign"],
            "diloco, powersgd": [*diloco, "--outer-codec", "powersgd", "--outer-rank", 4],
            "streaming, int4": [*diloco, "--outer-fragments", 2, "--outer-delay", max(1, every // 5), "--outer-mix", 0.5,
                                "--outer-codec", "int4"],
            "noloco": ["--outer", "noloco", "--outer-every", every],
            "co2": ["--outer", "co2", "--outer-every", every]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    study.add_extent(parser, "1000")
    parser.add_argument("--bytes-per-second", type=int, default=25_000_000, help="of a rank's link; 200 Mbit/s")
    given = study.read_extent(parser)
    small = given.small
    steps = 20 if given.sample else 200 if given.quick else given.steps or 1000
    every = 5 if given.sample else 10 if given.quick else 50
    rates = [3e-3] if given.sample else [2e-3, 8e-3] if given.quick else [5e-4, 1e-3, 2e-3, 4e-3, 8e-3]
    seeds = [1] if given.sample else [1, 2, 3]
    evaluations = 2 if given.sample else 10 if given.quick else 20
    batch, seq = (16, 64) if small else (16, 512)
    common = ["--log-every", "1", "--checkpoint-every", "0", "--threads", "1", "--schedule", "cosine", "--eval-batches",
              16 if small else 20, "--dtype", "f32" if small else "bf16", "--batch", batch, "--ranks", RANKS]
    runs = study.Study(given.tern, given.folder, 2000, seq, None if small else given.books, common)
    runs.launch, runs.fault = ["-n", RANKS], f"slow@*@{given.bytes_per_second}"
    # One cut of a method runs at a time, so that times are those of a machine that does nothing else.
    listed = methods(every)
    if given.sample:
        listed = {name: listed[name] for name in ("summed gradients", "diloco, powersgd", "noloco", "co2")}

    def one(method, rate, seed, length, count):
        name = "".join(c if c.isalnum() else "-" for c in method)
        return runs.run(f"{name}-{length}-{rate}-{seed}", length, count, "--learning-rate", rate, "--warmup-steps",
                        max(1, length // 20), "--seed", seed, *listed[method])

    rows, by_step, by_second, goal = [], {}, {}, None
    tuning = max(2 * every, steps // 5 // every * every)
    for method in listed:
        tuned = {rate: runs.loss(one(method, rate, 1, tuning, 1)[1]) for rate in rates}
        rate = min(tuned, key=tuned.get)
        all_runs = [one(method, rate, seed, steps, evaluations) for seed in seeds]
        if any(printed is None for _, printed in all_runs):
            rows.append([method, rate, "diverged", "", "", ""])
            continue
        curves = [study.curve(logged, batch * seq) for logged, _ in all_runs]
        by_step[method], by_second[method] = study.mean_curve(curves, 0), study.mean_curve(curves, 1)
        if goal is None:
            goal = 1.02 * sum(c[-1][2] for c in curves) / len(curves)
        parameters = all_runs[0][1]["parameters"]
        sent = all_runs[0][1].get("outer_bytes", 2 * (RANKS - 1) * 4 * parameters * steps)
        reached = [study.first_below(c, goal, 1) for c in curves]
        rows.append([method, f"{rate:g}", study.spread([c[-1][2] for c in curves]), f"{sent / steps:,.0f}",
                     study.spread([c[-1][1] for c in curves]), "not by all seeds" if None in reached else study.spread(reached)])
    print(f"{RANKS} ranks, links of {8e-6 * given.bytes_per_second:g} Mbit/s, {steps} steps of {batch * seq} tokens, averages every {every}; "
          f"goal: {goal or float('nan'):.3f}, 1.02 times the last loss with summed gradients\n")
    study.table(["method", "best rate", "held-out loss", "bytes a step (of summed gradients: closed form)", "seconds of all steps",
                 "seconds to the goal"], rows)
    study.plot(runs.folder / "by-step.svg", "Held-out loss by steps", "steps", by_step)
    study.plot(runs.folder / "by-second.svg", "Held-out loss by seconds of steps", "seconds", by_second)
    print(f"\nPlots: {runs.folder}/by-step.svg, by-second.svg")


if __name__ == "__main__":
    main()
