#!/usr/bin/env python3
"""Rules on one model: Muon, MeqMuon, SOAP, GaLore and AdamW; loss per step and per second, bytes of state.

The rate of each rule is the best of one log grid in a tenth of the run; then three seeds at that rate. Other numbers are each rule's defaults. Full runs train a model of the
shape of examples/novels-6m on books; --quick and --sample a model of 0.1 million parameters on a text made here. The same command goes
on where it was stopped.

  benchmarks/updates/rules.py --tern build/release/bin/tern --folder DIR --books BOOKS     BOOKS: train.txt, valid.txt (or .xz)
  benchmarks/updates/rules.py --tern build/release/bin/tern --folder DIR --quick | --sample
"""

import argparse

import study

RULES = ["adamw", "muon", "meqmuon", "soap", "galore-adamw"]  # the first one sets the goal


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    study.add_extent(parser, "1500, at most twelve hours of two cores with tiles")
    parser.add_argument("--threads", type=int, default=2)
    given = study.read_extent(parser)
    small = given.small
    steps = 20 if given.sample else 400 if given.quick else given.steps or 1500
    rates = [3e-3] if given.sample else [3e-3, 1e-2, 3e-2, 0.1, 0.3] if given.quick else [3e-4, 1e-3, 3e-3, 1e-2, 3e-2]
    seeds = [1] if given.sample else [1, 2, 3]
    evaluations = 2 if given.sample else 20
    batch, seq = (8, 64) if small else (16, 512)
    common = ["--log-every", "1", "--checkpoint-every", "0", "--threads", given.threads, "--schedule", "cosine",
              "--eval-batches", 64 if small else 20, "--dtype", "f32" if small else "bf16", "--batch", batch]
    runs = study.Study(given.tern, given.folder, 2000, seq, None if small else given.books, common)

    def one(rule, rate, seed, length, evaluations):
        words = ["--projection-rank", 16] if small and rule == "galore-adamw" else []
        return runs.run(f"{rule}-{length}-{rate}-{seed}", length, evaluations, "--optimizer", rule, "--learning-rate", rate,
                        "--warmup-steps", max(1, length // 20), "--seed", seed, *words)

    rows, by_step, by_second, goals = [], {}, {}, []
    for rule in RULES:
        tuned = {rate: runs.loss(one(rule, rate, 1, max(10, steps // 10), 1)[1]) for rate in rates}
        rate = min(tuned, key=tuned.get)
        all_runs = [one(rule, rate, seed, steps, evaluations) for seed in seeds]
        if any(printed is None for _, printed in all_runs):
            rows.append([rule, rate, "diverged", "", "", "", ""])
            continue
        curves = [study.curve(logged, batch * seq) for logged, _ in all_runs]
        by_step[rule], by_second[rule] = study.mean_curve(curves, 0), study.mean_curve(curves, 1)
        goals = goals or [1.02 * c[-1][2] for c in curves]  # each seed has its own
        first = [study.reached([study.first_below(c, goal, across) for c, goal in zip(curves, goals)]) for across in (0, 1)]
        state = all_runs[0][1]["predicted_bytes"]["optimizer"]
        edge = " (edge of the grid)" if len(rates) > 1 and rate in (rates[0], rates[-1]) else ""
        rows.append([rule, f"{rate:g}{edge}", study.spread([c[-1][2] for c in curves]), first[0], first[1],
                     study.spread([1e3 * c[-1][1] / steps for c in curves]), f"{state:,}"])
    print(f"{steps} steps of {batch * seq} tokens; rates tuned in {max(10, steps // 10)} steps; goal of each seed: 1.02 times AdamW's last loss\n")
    study.table(["rule", "best rate", "held-out loss", "steps to the goal", "seconds to the goal", "ms a step", "bytes of optimizer state"], rows)
    study.plot(runs.folder / "by-step.svg", "Held-out loss by steps", "steps", by_step)
    study.plot(runs.folder / "by-second.svg", "Held-out loss by seconds of steps", "seconds", by_second)
    print(f"\nPlots: {runs.folder}/by-step.svg, by-second.svg")


if __name__ == "__main__":
    main()
