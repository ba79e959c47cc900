"""What the studies of updates share: a text made here, a small model, runs that are made once, tables."""

import argparse
import json
import lzma
import math
import os
import pathlib
import random
import shutil
import subprocess
import sys


def write_text(path, lines, seed):
    """Sentences of a small grammar: a subject's number and place come back later, words are Zipf's."""
    draw = random.Random(seed)
    names = ["Ada", "Bruno", "Clara", "Dev", "Edith", "Farid", "Greta", "Hugo"]
    nouns = ["boat", "lamp", "letter", "stone", "river", "ticket", "garden", "clock", "violin", "map", "coat", "bridge"]
    verbs = ["lost", "found", "sold", "painted", "drew", "hid", "mended", "carried"]
    places = ["harbour", "attic", "market", "station", "mill", "library"]
    zipf = lambda words: draw.choices(words, [1 / (k + 1) for k in range(len(words))])[0]
    with open(path, "w") as out:
        for _ in range(lines):
            who, what, where, number = zipf(names), zipf(nouns), zipf(places), draw.randint(2, 9)
            out.write(f"{who} {zipf(verbs)} {number} {what}s at the {where}. "
                      f"So the {where} has {number} {what}s, said {who}, and {zipf(names)} {zipf(verbs)} a {zipf(nouns)}.\n")


class Study:
    """A folder of runs. A run that is finished is not made again; one that was stopped goes on."""

    COMMON = ["--eval-batches", "64", "--log-every", "1", "--checkpoint-every", "0", "--threads", "1", "--schedule", "constant",
              "--warmup-steps", "0"]

    def __init__(self, tern, folder, lines, seq, books=None, common=None):
        """books: a folder of train.txt and valid.txt (or .xz), which a model of the shape of novels-6m learns; else a text made here."""
        self.tern, self.folder, self.seq = str(pathlib.Path(tern).resolve()), pathlib.Path(folder), seq
        self.common, self.launch, self.fault = common or self.COMMON, [], None
        self.folder.mkdir(parents=True, exist_ok=True)
        examples = pathlib.Path(__file__).resolve().parents[2] / "examples"
        self.text, self.held_out = self.folder / "text.txt", self.folder / "held-out.txt"
        if books:
            self.model, self.tokenizer = examples / "novels-6m/config.json", examples / "novels-6m"
            for name, path in ("train", self.text), ("valid", self.held_out):
                if path.exists():
                    continue
                plain, packed = pathlib.Path(books) / f"{name}.txt", pathlib.Path(books) / f"{name}.txt.xz"
                path.write_bytes(plain.read_bytes() if plain.exists() else lzma.open(packed).read())
            return
        self.model, self.tokenizer = examples / "tiny/config.json", self.folder / "tokenizer"
        if not self.tokenizer.exists():
            write_text(self.text, lines, 1), write_text(self.held_out, 200, 2)
            self.call("tokenize", "--train", "--vocab-size", "300", "--input", self.text, "--output", self.tokenizer)

    def call(self, *words):
        done = subprocess.run([self.tern, *map(str, words)], capture_output=True, text=True)
        if done.returncode not in (0, 75):
            sys.exit(f"{' '.join(map(str, words))}\n{done.stderr[-2000:]}")
        return done.stdout

    def run(self, name, steps, evaluations, *words):
        """Rows of the run's log, and what it printed; None where it diverged."""
        out = self.folder / "runs" / name
        result = out / "result.json"
        if not result.exists():
            out.mkdir(parents=True, exist_ok=True)
            command = [*([self.tern, "launch", *self.launch, "--"] if self.launch else [self.tern]), "train", self.model, "--from-scratch", "--tokenizer", self.tokenizer, "--data", self.text,
                       "--valid-data", self.held_out, "--output", out / "run", "--seq", self.seq, "--steps", steps,
                       "--eval-every", max(1, steps // evaluations), *self.common, "--json", *words]
            environment = dict(os.environ, **({"TERN_FAULT": self.fault} if self.fault else {}))
            done = subprocess.run(list(map(str, command)), capture_output=True, text=True, env=environment)
            if done.returncode == 0:
                result.write_text(done.stdout)
            elif "not finite" in done.stderr:
                result.write_text("null")
            else:
                sys.exit(f"{' '.join(map(str, command))}\n{done.stderr[-2000:]}")
            print(f"{name}: {self.loss(json.loads(result.read_text())):.4f}", file=sys.stderr, flush=True)
        printed = json.loads(result.read_text())
        rows = [json.loads(line) for line in open(out / "run/logs/metrics.jsonl")] if printed else []
        return rows, printed

    @staticmethod
    def loss(printed):
        return printed["held_out"]["loss"] if printed else float("inf")


def curve(rows, tokens):
    """Of steps of so many tokens: (steps, seconds of steps so far, loss) of the evaluations of a run that logs each step."""
    points, seconds = [], 0.0
    for row in rows:
        if "perf/tokens_per_s" in row:
            seconds += tokens / row["perf/tokens_per_s"]
        if "eval/held-out/loss" in row:
            points.append((row["step"], seconds, row["eval/held-out/loss"]))
    return points


def plot(path, title, across, curves):
    """An SVG of loss: curves is {name: [(x, loss)]}; infinite losses are left out, those far above the least lie on the upper edge."""
    colours = ["#1b6ca8", "#c8553d", "#2e933c", "#7b4b94", "#b58900", "#444444", "#d33682", "#2aa198", "#8c564b", "#17becf"]
    curves = {name: [(x, y) for x, y in points if y < float("inf")] for name, points in curves.items()}
    every = [p for points in curves.values() for p in points]
    if not every:
        return
    x1, (y0, y1) = max(x for x, _ in every) or 1, (f(y for _, y in every) for f in (min, max))
    y1 = min(y1, 2 * y0 + 1) if y1 > y0 else y0 + 1
    px, py = lambda x: 60 + 560 * x / x1, lambda y: 340 - 290 * (min(y, y1) - y0) / (y1 - y0)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="820" height="390" font-family="sans-serif" font-size="12">',
           '<rect width="820" height="390" fill="white"/>', f'<text x="60" y="24" font-size="15">{title}</text>',
           f'<text x="340" y="380" text-anchor="middle">{across}</text>', '<path d="M60 50V340H620" fill="none" stroke="#888"/>']
    for k in range(5):
        y, x = y0 + (y1 - y0) * k / 4, x1 * k / 4
        out.append(f'<text x="54" y="{py(y) + 4:.1f}" text-anchor="end">{y:.2f}</text>')
        out.append(f'<text x="{px(x):.1f}" y="358" text-anchor="middle">{x:.4g}</text>')
    for k, (name, points) in enumerate(curves.items()):
        colour = colours[k % len(colours)]
        path_of = " ".join(f"{px(x):.1f},{py(y):.1f}" for x, y in points)
        out.append(f'<polyline points="{path_of}" fill="none" stroke="{colour}" stroke-width="1.8"/>')
        out.append(f'<text x="632" y="{64 + 18 * k}" fill="{colour}">{name}</text>')
    pathlib.Path(path).write_text("\n".join([*out, "</svg>"]) + "\n")


def parser(text):
    """What the studies of updates that train the program take, `text` being the script's own words."""
    made = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--tern", required=True)
    made.add_argument("--folder", required=True)
    made.add_argument("--quick", action="store_true", help="at most ten minutes")
    made.add_argument("--sample", action="store_true", help="seconds: does it run?")
    return made


def add_extent(parser, steps):
    """What each study takes: where it runs and how much of it; `steps`: help on a full run's."""
    parser.add_argument("--tern", required=True)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--books", help="for full runs: a folder of train.txt and valid.txt, or .xz")
    parser.add_argument("--steps", type=int, help=f"of full runs; not given: {steps}")
    parser.add_argument("--quick", action="store_true", help="at most ten minutes")
    parser.add_argument("--sample", action="store_true", help="seconds: does it run?")


def read_extent(parser):
    """The arguments; `small`: on a text made here."""
    given = parser.parse_args()
    given.small = given.quick or given.sample
    if not given.small and not given.books:
        parser.error("full runs need --books")
    if given.sample:
        shutil.rmtree(given.folder, ignore_errors=True)
    return given


def mean_curve(curves, across):
    """Of runs with evaluations at the same steps: (mean of column `across`, mean loss)."""
    return [(sum(p[across] for p in points) / len(points), sum(p[2] for p in points) / len(points)) for points in zip(*curves)]


def first_below(points, goal, across):
    return next((p[across] for p in points if p[2] <= goal), None)


def spread(values):
    """Mean and largest distance from it, of those that did not diverge."""
    finite = [v for v in values if math.isfinite(v)]
    if len(finite) < len(values):
        return f"{spread(finite)} ({len(values) - len(finite)} of {len(values)} seeds diverged)" if finite else "diverged"
    mean = sum(values) / len(values)
    return f"{mean:.3f} ± {max(abs(v - mean) for v in values):.3f}" if len(values) > 1 else f"{mean:.3f}"


def reached(values):
    """When seeds reached a goal, None where one did not."""
    those = [v for v in values if v is not None]
    if not those:
        return "not reached"
    return spread(those) + ("" if len(those) == len(values) else f" ({len(those)} of {len(values)} seeds)")


def table(head, rows):
    print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(str(cell) for cell in row) + " |")
