#!/usr/bin/env python3
"""Batches that grow to a third of the data: SNGM, MSGD, LARS, LAMB and AdamW at a fixed number of passes over it.

Two sets of training samples, both made here: sequences of a text, and images of 8 x 8 pixels whose kind is to be named (each pixel is a
token; the loss is on the kind and the end behind it). Every run sees each sample equally often, so that a larger batch is fewer steps.
The rate of each rule and batch is the best power of two, found by walking downhill in the held-out loss of one seed until both
neighbours are worse; of rules with momentum it is the effective one, η/(1-β). Then three seeds at that rate. Rates rise over a
twentieth of the steps and fall linearly to zero; no decay, no clipping. The same command goes on where it was stopped.

  benchmarks/updates/batches.py --tern build/release/bin/tern --folder DIR [--quick | --sample]
"""

import json
import math
import random
import shutil

import sparse
import study

BETA = 0.9
# Words of the command; the power of two where the search begins at the smallest batch.
RULES = {"sngm": (["--optimizer", "sngm", "--momentum", BETA], -1),
         "msgd": (["--optimizer", "sgd", "--momentum", BETA, "--clip", 0], 0),
         "lars": (["--optimizer", "lars", "--momentum", BETA, "--clip", 0], 3),
         "lamb": (["--optimizer", "lamb", "--clip", 0], -6),
         "adamw": (["--optimizer", "adamw", "--clip", 0], -7)}
KINDS = "ABCDEFGH"
SIDE = 8


def in_figure(kind, x, y, size):
    """Whether a pixel of a square of `size` belongs to the figure."""
    middle, last = size // 2, size - 1
    return {"A": y == middle, "B": x == middle, "C": x == middle or y == middle, "D": x == y, "E": x + y == last,
            "F": x == y or x + y == last, "G": x in (0, last) or y in (0, last), "H": True}[kind]


def write_images(path, count, seed):
    """Bars, crosses, diagonals, frames and squares of any place, size and brightness, with noise: JSONL of pixels 0 to 7 and a kind."""
    draw = random.Random(seed)
    with open(path, "w") as out:
        for _ in range(count):
            kind, size, light = draw.choice(KINDS), draw.randint(6, 7), draw.uniform(4, 7)
            left, top = draw.randint(0, SIDE - size), draw.randint(0, SIDE - size)
            pixels = ""
            for y in range(SIDE):
                for x in range(SIDE):
                    inside = 0 <= x - left < size and 0 <= y - top < size and in_figure(kind, x - left, y - top, size)
                    pixels += str(min(7, max(0, round(light * inside + draw.gauss(0.3, 0.5)))))
            out.write(json.dumps({"prompt": pixels, "completion": kind}) + "\n")


def samples_of(runs, given):
    """How many windows of runs.seq tokens the training data has."""
    packed = runs.folder / f"packed-{runs.text.stem}"
    packed.mkdir(exist_ok=True)
    return (len(sparse.tokens_of(given.tern, runs.tokenizer, runs.text, packed)) - 1) // runs.seq


def best_power(loss_of, power):
    """Walks from `power` to where both neighbours are worse."""
    for _ in range(40):
        if loss_of(power) == math.inf:
            power -= 1
            continue
        best = min((power, power - 1, power + 1), key=loss_of)
        if best == power:
            break
        power = best
    return power


def compare(data, runs, epochs, parts, seeds, search, given):
    """The table of one set of data; {rule: [(log2 of the batch, loss)]}."""
    samples = samples_of(runs, given)
    batches = [max(1, samples // part) for part in parts]

    def one(rule, batch, power, seed):
        """(held-out loss, mean training loss of the last pass)"""
        steps, words = max(2, epochs * samples // batch), RULES[rule][0]
        rate = 2.0 ** power * (1 - BETA if "--momentum" in words else 1)
        rows, printed = runs.run(f"{data}-{rule}-{batch}-{2.0 ** power:g}-{seed}", steps, 1, "--batch", batch, "--seed", seed,
                                 "--learning-rate", rate, "--weight-decay", 0, "--warmup-steps", steps // 20, *words)
        last = [row["train/loss"] for row in rows if "train/loss" in row][-max(1, samples // batch):]
        return runs.loss(printed), sum(last) / len(last) if last else math.inf

    curves, rows = {rule: [] for rule in RULES}, []
    for rule, (_, power) in RULES.items():
        cells = []
        for batch in batches:
            if search:
                power = best_power(lambda k: one(rule, batch, k, 1)[0], power)
            losses = [one(rule, batch, power, seed) for seed in seeds]
            ended = [both for both in losses if math.isfinite(both[0])]
            held, trained = ([sum(each) / len(ended) for each in zip(*ended)] if ended else [math.inf, math.inf])
            if ended:
                curves[rule].append((math.log2(batch), held))
            cells += [study.spread([h for h, _ in losses]), f"{trained:.3f}", f"{2.0 ** power:g}"]
        rows.append([rule, *cells])
    print(f"\n{data}: {samples} samples of {runs.seq} tokens, {epochs} passes; batches of {', '.join(map(str, batches))} are "
          f"{', '.join(str(max(2, epochs * samples // batch)) for batch in batches)} steps\n")
    heads = [f"{batch}: {what}" for batch in batches for what in ("held-out loss", "training loss", "rate")]
    study.table(["rule", *heads], rows)
    return curves


def main():
    parser = study.parser(__doc__)
    given = parser.parse_args()
    if given.sample:
        shutil.rmtree(given.folder, ignore_errors=True)
    lines = 40 if given.sample else 170 if given.quick else 4000
    images = 24 if given.sample else 192 if given.quick else 4608
    epochs = 2 if given.sample else 12
    parts = [12, 3] if given.sample else [32, 3] if given.quick else [768, 192, 48, 12, 3]
    seeds = [1] if given.sample else [1, 2, 3]
    common = ["--eval-batches", "64", "--log-every", "1", "--checkpoint-every", "0", "--threads", "1", "--schedule", "linear",
              "--min-learning-rate", "0"]
    runs = study.Study(given.tern, given.folder, lines, 64, common=common)
    text = compare("text", runs, epochs, parts, seeds, not given.sample, given)
    study.plot(runs.folder / "text.svg", "Text: held-out loss by batch", "log2 of the sequences of a step", text)
    runs.text, runs.held_out, runs.seq = runs.folder / "images.jsonl", runs.folder / "held-out-images.jsonl", SIDE * SIDE + 2
    if not runs.held_out.exists():
        write_images(runs.text, images + 1, 1), write_images(runs.held_out, 257, 2)  # the last window wants one token more
    parts = [12, 3] if given.sample else [48, 3] if given.quick else parts
    seen = compare("images", runs, epochs, parts, seeds, not given.sample, given)
    study.plot(runs.folder / "images.svg", "Images: held-out loss by batch", "log2 of the images of a step", seen)
    print(f"\nPlots: {runs.folder}/text.svg, images.svg")


if __name__ == "__main__":
    main()
