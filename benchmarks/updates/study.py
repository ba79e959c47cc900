"""What the studies of updates share: a text made here, a small model, runs that are made once, tables."""

import json
import pathlib
import random
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

    def __init__(self, tern, folder, lines, seq):
        self.tern, self.folder, self.seq = str(pathlib.Path(tern).resolve()), pathlib.Path(folder), seq
        self.folder.mkdir(parents=True, exist_ok=True)
        self.model = pathlib.Path(__file__).resolve().parents[2] / "examples/tiny/config.json"
        self.text, self.held_out = self.folder / "text.txt", self.folder / "held-out.txt"
        self.tokenizer = self.folder / "tokenizer"
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
            command = [self.tern, "train", self.model, "--from-scratch", "--tokenizer", self.tokenizer, "--data", self.text,
                       "--valid-data", self.held_out, "--output", out / "run", "--seq", self.seq, "--steps", steps,
                       "--eval-every", max(1, steps // evaluations), "--eval-batches", "64", "--log-every", "1",
                       "--checkpoint-every", "0", "--threads", "1", "--schedule", "constant", "--warmup-steps", "0",
                       "--json", *words]
            done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
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


def spread(values):
    """Mean and largest distance from it."""
    mean = sum(values) / len(values)
    return f"{mean:.3f} ± {max(abs(v - mean) for v in values):.3f}" if len(values) > 1 else f"{mean:.3f}"


def table(head, rows):
    print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(str(cell) for cell in row) + " |")
