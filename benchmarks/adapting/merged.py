#!/usr/bin/env python3
"""What merging an adapter into a base in codes costs: into offsets (--method qalora, adapt merge --offsets), and as QLoRA is
usually merged, into numbers that are then put into codes again.

    TERN_DATA=… benchmarks/adapting/merged.py --work DIR [--types u4,u2,q4_1] [--texts novel,sums] [--steps 100] [--quick]

Of each text the first nine tenths of at most --bytes are learned, the rest is read by `tern eval`. Prints a table of
losses in nats a token. What is done is not done again. Needs nothing but Python's library.
"""
import argparse, json, lzma, math, os, pathlib, sys

from tern_runs import TernRuns, claim_folder

ROOT = pathlib.Path(__file__).resolve().parents[2]


def novel(data: pathlib.Path) -> str:
    """The longest book of the test set, which the reference model has not read."""
    with lzma.open(data / "text/books/test.txt.xz", "rt", encoding="utf-8") as books:
        return max(books.read().split("<|endoftext|>"), key=len)


def sums(data: pathlib.Path) -> str:
    rows = [json.loads(line) for line in (data / "tasks/gsm8k/test.jsonl").read_text(encoding="utf-8").splitlines()]
    return "".join(f"{r['question']}\n{r['answer']}\n\n" for r in rows)


TEXTS = {"novel": novel, "sums": sums}


class Study(TernRuns):
    def make(self, output, *words):
        if not (self.args.work / output).exists():
            self.tern(*words, "--output", output)
        return output

    def adapter(self, text, base, method):
        """Trained beside the base. A of means has a 64th of the numbers: twice the rank is about as many."""
        run, a = f"{text}-{base}-{method}", self.args
        rank, rate = (2 * a.rank, a.pooled_rate) if method == "qalora" else (a.rank, a.rate)
        if not (a.work / run / "adapter").exists():
            self.tern("adapt", base, "--method", method, "--data", f"{text}.txt", "--output", run, "--rank", rank, "--seq", 128,
                      "--batch", 8, "--steps", a.steps, "--learning-rate", rate)
        return f"{run}/adapter"

    def loss(self, text, model, *words):
        printed = self.tern("eval", model, "--data", f"{text}_test.txt", "--dtype", "f32", "--json", *words)
        return f"{math.log(json.loads(printed)['perplexity']):.4f}"

    def row(self, text, kind):
        gguf = ".gguf" if kind.startswith("q") else ""
        base = self.make(f"base-{kind}{gguf}", "quantize", self.args.model, "--type", kind)
        pooled, plain = self.adapter(text, base, "qalora"), self.adapter(text, base, "lora")
        offsets = self.make(f"{text}-offsets-{kind}{gguf}", "adapt", "merge", base, pooled, "--offsets")
        numbers = self.make(f"{text}-numbers-{kind}", "adapt", "merge", base, plain, "--dtype", "f32")
        again = self.make(f"{text}-again-{kind}{gguf}", "quantize", numbers, "--type", kind)
        return [text, kind, self.loss(text, base),
                self.loss(text, base, "--adapter", pooled), self.loss(text, offsets),
                self.loss(text, base, "--adapter", plain), self.loss(text, numbers), self.loss(text, again)]


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--work", type=pathlib.Path, required=True)
    p.add_argument("--tern", type=pathlib.Path, default=ROOT / "build/release/bin/tern")
    p.add_argument("--model", type=pathlib.Path, default=ROOT / "examples/novels-6m")
    p.add_argument("--types", default="u4,u2,q4_1")
    p.add_argument("--texts", default="novel,sums")
    p.add_argument("--steps", type=int, default=100)
    p.add_argument("--rank", type=int, default=16)
    p.add_argument("--rate", default="1e-3", help="of lora")
    p.add_argument("--pooled-rate", default="5e-3", help="of qalora, whose inputs are means, nearer to zero")
    p.add_argument("--bytes", type=int, default=300_000, help="of each text, in characters")
    p.add_argument("--quick", action="store_true", help="4 steps of one text in u4 and q4_1: minutes, to see that it runs")
    args = p.parse_args()
    if args.quick:
        args.types, args.texts, args.steps, args.rank, args.bytes = "u4,q4_1", "sums", 4, 2, 20_000
    data = os.environ.get("TERN_DATA")
    if not data:
        print("merged: TERN_DATA is not set; it names the folder of texts", file=sys.stderr)
        return 2
    args.tern, args.model, args.work = args.tern.resolve(), args.model.resolve(), args.work.resolve()
    claim_folder(args, "model steps rank rate pooled_rate bytes")
    print("| text | base | alone | qalora beside it | in its offsets | lora beside it | in numbers | in codes again |\n"
          "|---|---|---|---|---|---|---|---|")
    for name in args.texts.split(","):
        text = TEXTS[name](pathlib.Path(data))[:args.bytes]
        cut = text.rindex("\n", 0, len(text) * 9 // 10) + 1
        (args.work / f"{name}.txt").write_text(text[:cut], encoding="utf-8")
        (args.work / f"{name}_test.txt").write_text(text[cut:], encoding="utf-8")
        for kind in args.types.split(","):
            print("| " + " | ".join(Study(args).row(name, kind)) + " |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
