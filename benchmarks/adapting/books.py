#!/usr/bin/env python3
"""Five adapters, one for each of five books, made one: OPCM beside TIES, DARE with TIES, the mean and the sum of changes.

    TERN_DATA=… benchmarks/adapting/books.py --work DIR [--orders 3] [--steps 100] [--quick]

Of each book the first nine tenths of at most --bytes are learned, the rest is read by `tern eval`. All that are made one may have the ranks of all
together. Prints a table of losses in nats a token on
each book's rest, and their mean; of OPCM, whose result depends on the order, the mean over `--orders` orders with its spread.
What is done is not done again. Needs nothing but Python's library.
"""
import argparse, json, lzma, math, os, pathlib, statistics, sys

from tern_runs import TernRuns, claim_folder

ROOT = pathlib.Path(__file__).resolve().parents[2]
NUM = 5
# Words of `tern adapt combine`; MEAN stands for shares of 1/5, RANK for the ranks of all together, which the others have by themselves.
WAYS = {"mean": ["--method", "cat", "--shares", "MEAN"], "sum": ["--method", "cat"],
        "ties": ["--method", "ties_svd", "--density", "0.2", "--rank", "RANK"],
        "dare_ties": ["--method", "dare_ties_svd", "--density", "0.5", "--rank", "RANK"],
        "opcm": ["--method", "opcm"]}


def books(data: pathlib.Path) -> list:
    """The five longest of the test and the validation set, which the reference model has not learned."""
    found = []
    for part in ("test", "valid"):
        with lzma.open(data / f"text/books/{part}.txt.xz", "rt", encoding="utf-8") as file:
            found += file.read().split("<|endoftext|>")
    return sorted(found, key=len, reverse=True)[:NUM]


class Study(TernRuns):
    def adapter(self, book: int) -> str:
        run, a = f"book{book}-{self.args.steps}", self.args
        if not (a.work / run / "adapter").exists():
            self.tern("adapt", a.model, "--data", f"book{book}.txt", "--output", run, "--rank", a.rank, "--seq", 128, "--batch", 8,
                      "--steps", a.steps, "--learning-rate", a.rate)
        return f"{run}/adapter"

    def combined(self, way: str, order: list) -> str:
        out = f"{way}-{''.join(map(str, order))}-{self.args.steps}"
        if not (self.args.work / out).exists():
            words = [w.replace("MEAN", ",".join([str(1 / NUM)] * NUM)).replace("RANK", str(NUM * self.args.rank)) for w in WAYS[way]]
            self.tern("adapt", "combine", *[w for b in order for w in ("--adapter", self.adapter(b))], *words, "--output", out)
        return out

    def losses(self, adapter: str = "") -> list:
        words = ["--adapter", adapter] if adapter else []
        return [math.log(json.loads(self.tern("eval", self.args.model, "--data", f"book{b}_test.txt", "--dtype", "f32", "--json",
                                              *words))["perplexity"]) for b in range(NUM)]


def row(name: str, runs: list) -> str:
    """Losses of each run on each book."""
    means = [statistics.mean(losses) for losses in runs]
    spread = f" ± {statistics.stdev(means):.4f}" if len(means) > 1 else ""
    each = [statistics.mean(losses[b] for losses in runs) for b in range(NUM)]
    return "| " + " | ".join([name] + [f"{x:.4f}" for x in each] + [f"{statistics.mean(means):.4f}{spread}"]) + " |"


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--work", type=pathlib.Path, required=True)
    p.add_argument("--tern", type=pathlib.Path, default=ROOT / "build/release/bin/tern")
    p.add_argument("--model", type=pathlib.Path, default=ROOT / "examples/novels-6m")
    p.add_argument("--orders", type=int, default=3)
    p.add_argument("--steps", type=int, default=100)
    p.add_argument("--rank", type=int, default=16)
    p.add_argument("--rate", default="1e-3")
    p.add_argument("--bytes", type=int, default=200_000, help="of each book")
    p.add_argument("--quick", action="store_true", help="4 steps, 20 KB of each book, one order: minutes, to see that it runs")
    args = p.parse_args()
    if args.quick:
        args.orders, args.steps, args.rank, args.bytes = 1, 4, 2, 20_000
    data = os.environ.get("TERN_DATA")
    if not data:
        print("books: TERN_DATA is not set; it names the folder of texts", file=sys.stderr)
        return 2
    args.tern, args.model, args.work = args.tern.resolve(), args.model.resolve(), args.work.resolve()
    claim_folder(args, "model steps rank rate bytes")
    for b, text in enumerate(books(pathlib.Path(data))):
        text = text[:args.bytes]
        cut = text.rindex("\n", 0, len(text) * 9 // 10) + 1
        (args.work / f"book{b}.txt").write_text(text[:cut], encoding="utf-8")
        (args.work / f"book{b}_test.txt").write_text(text[cut:], encoding="utf-8")
    study = Study(args)
    print("| adapter | " + " | ".join(f"book {b + 1}" for b in range(NUM)) + " | mean |\n|---|" + "---|" * (NUM + 1))
    print(row("none", [study.losses()]), flush=True)
    own = [study.losses(study.adapter(b)) for b in range(NUM)]
    print(row("each book's own", [[own[b][b] for b in range(NUM)]]), flush=True)
    print(row("another book's", [[statistics.mean(own[o][b] for o in range(NUM) if o != b) for b in range(NUM)]]), flush=True)
    orders = [[(k * s + s) % NUM for k in range(NUM)] for s in range(1, min(args.orders, NUM - 1) + 1)]
    for way in WAYS:
        some = orders if way == "opcm" else orders[:1]
        print(row(way, [study.losses(study.combined(way, order)) for order in some]), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
