#!/usr/bin/env python3
"""Two streams of tasks, learned by seven methods, in several orders, with several seeds.

    TERN_DATA=… benchmarks/adapting/streams.py --work DIR [--streams texts,questions] [--orders 3] [--seeds 3] [--quick]

texts: a novel, plays, an encyclopedia, code, many languages, sums. Of each the first nine tenths of at most --bytes are learned, the rest is
scored in bits per byte after every task. questions: ten tasks of classification; of each at most --rows are learned, and the share of right
labels among those of at most --windows questions is the score. docs/continual.md has the definitions of AP, FT, BWT, FWT.

A task that one run on it alone does not bring past the model as it came (texts: by 0.05 bits per byte), or past always giving the commonest
label (questions: by 10 points), says nothing of forgetting: it is left out of the stream and listed. Order 1 is the one above (of questions that
of O-LoRA's paper); the others are drawn by a fixed seed. Prints for each stream a table over all orders and seeds, with the spread, what is
kept behind the last task and seconds (the median, as what else the machine does falls on few runs); `--matrices` also the matrix of every method and order, means over seeds. `--small STEPS`: the model is one of
0.4 million parameters, which is trained on novels first. What is done is not done again, what was stopped goes on; --results FILE keeps every
run's result in one file, from which another folder, or another machine, goes on. Needs nothing but Python's library.
"""
import argparse, json, lzma, math, os, pathlib, random, statistics, sys

from tern_runs import KnownRuns, TernRuns, claim_folder, identity_of

ROOT = pathlib.Path(__file__).resolve().parents[2]
DECIDES = "small bytes rows longest windows asked rank seq batch rate dtype"  # settings that decide a run's figures, beside the model
METHODS = ("seqlora", "replay", "ewc", "olora", "inflora", "gainlora", "multitask")


def novel(data: pathlib.Path, num_bytes: int) -> str:
    """The longest book of the test set, which the reference model has not read."""
    with lzma.open(data / "text/books/test.txt.xz", "rt", encoding="utf-8") as books:
        return max(books.read().split("<|endoftext|>"), key=len)[:num_bytes]


def sums(data: pathlib.Path, num_bytes: int) -> str:
    rows = [json.loads(line) for line in (data / "tasks/gsm8k/train.jsonl").read_text(encoding="utf-8").splitlines()]
    return "".join(f"{r['question']}\n{r['answer']}\n\n" for r in rows)[:num_bytes]


def text_of(name: str):
    return lambda data, num_bytes: (data / "text" / name).read_bytes()[:num_bytes].decode("utf-8", "ignore")


TEXTS = {"novel": novel, "plays": text_of("tinyshakespeare.txt"), "wiki": text_of("calib_wiki.txt"), "code": text_of("calib_code.txt"),
         "languages": text_of("calib_multilingual.txt"), "sums": sums}


# O-LoRA's order 3 of those at hand, and what each is asked with.
QUESTIONS = {"amazon": "SC", "MNLI": "NLI", "CB": "NLI", "COPA": None, "QQP": "QQP", "RTE": "NLI", "SST-2": "SC", "agnews": "TC",
             "BoolQA": "BoolQA", "WiC": "WiC"}

def questions_of(folder: pathlib.Path, name: str, part: str, count: int, longest: int) -> list:
    """Prompts with their labels. Rows whose label is none of the task's (131 of MNLI's test) or which are longer than that are dropped."""
    labels = json.loads((folder / name / "labels.json").read_text(encoding="utf-8"))
    rows = [r for r in json.loads((folder / name / f"{part}.json").read_text(encoding="utf-8")) if r["label"] in labels and len(r["sentence"]) <= longest]
    rows = random.Random(23).sample(rows, min(count, len(rows)))
    asked = ""
    if QUESTIONS[name]:
        instructions = json.loads((folder / "instructions.json").read_text(encoding="utf-8"))
        asked = instructions[QUESTIONS[name]][0]["instruction"] + "Option: " + ", ".join(labels) + " \n"
    return [(f"{asked}{r['sentence'].strip()}\nAnswer:", labels, r["label"]) for r in rows]


def write_lines(path: pathlib.Path, rows: list) -> None:
    path.write_text("".join(json.dumps(r, ensure_ascii=False) + "\n" for r in rows), encoding="utf-8")


def orders_of(names: list, count: int) -> list:
    """The given one, then shuffled ones, each once; fewer where there are no more."""
    orders, draw = [list(names)], random.Random(23)
    while len(orders) < min(count, math.factorial(len(names))):
        order = draw.sample(names, len(names))
        if order not in orders:
            orders.append(order)
    return orders


class Texts:
    """A stream's tasks as files, and when one of them says something."""
    unit, least, sign = "bits per byte", 0.05, -1
    longer = 1  # windows than --seq

    def __init__(self, args, data: pathlib.Path):
        self.names, self.steps, self.judged = args.texts.split(","), args.steps, args.windows
        for name in self.names:
            text = TEXTS[name](data, args.bytes)
            cut = text.rindex("\n", 0, len(text) * 9 // 10) + 1
            (args.work / f"{name}.txt").write_text(text[:cut], encoding="utf-8")
            (args.work / f"{name}_test.txt").write_text(text[cut:], encoding="utf-8")
        self.end = ".txt"

    def floor(self, name: str, before: float) -> float:
        return before


class Questions:
    unit, least, sign = "share right", 0.1, 1
    longer = 2

    def __init__(self, args, data: pathlib.Path):
        self.names, self.end, self.commonest = args.questions.split(","), ".jsonl", {}
        self.steps, self.judged = args.question_steps or args.steps, args.asked or args.windows
        for name in self.names:
            learned, asked = (questions_of(data / "continual", name, part, count, args.longest)
                              for part, count in (("train", args.rows), ("test", self.judged)))
            write_lines(args.work / f"{name}.jsonl", [{"prompt": p, "completion": f" {label}"} for p, _, label in learned])
            write_lines(args.work / f"{name}_test.jsonl",
                        [{"prompt": p, "choices": [f" {x}" for x in labels], "answer": labels.index(label)} for p, labels, label in asked])
            counts = [sum(label == x for _, _, label in asked) for x in asked[0][1]]
            self.commonest[name] = max(counts) / len(asked)

    def floor(self, name: str, before: float) -> float:
        return self.commonest[name]


class Study(TernRuns):
    def __init__(self, args, tasks):
        super().__init__(args)
        self.tasks = tasks
        self.known = KnownRuns(args.results, {"model": identity_of(args.model), **{key: str(getattr(args, key)) for key in DECIDES.split()}})

    def stream(self, order: list, method: str, seed: int) -> dict:
        a, steps = self.args, self.tasks.steps
        name = f"{'-'.join(order)}-{method}-{steps}-{seed}"
        tasks = a.work / f"{'-'.join(order)}.toml"
        end, batch = self.tasks.end, a.batch // self.tasks.longer
        tasks.write_text("".join(f'[[task]]\nname = "{n}"\ndata = "{n}{end}"\ntest = "{n}_test{end}"\n' for n in order), encoding="utf-8")
        result = a.work / name / "result.json"
        if known := self.known.get(name):
            return known
        if not result.exists():
            self.tern("adapt", a.model, "--stream", tasks.name, "--method", method, "--output", name, "--rank", a.rank,
                      "--seq", a.seq * self.tasks.longer, "--batch", batch, "--steps", steps, "--learning-rate", a.rate,
                      "--eval-batches", self.tasks.judged // batch, "--checkpoint-every", 0, "--seed", seed, "--dtype", a.dtype,
                      *(["--statistics-windows", a.windows] if method in ("inflora", "gainlora", "ewc") else []),
                      *(["--threads", a.threads] if a.threads else []))
        self.known.add(name, json.loads(result.read_text(encoding="utf-8")))
        return self.known.get(name)


def spread(values: list, digits: int = 3) -> str:
    return f"{statistics.mean(values):.{digits}f}" + (f" ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else "")


def row(method: str, runs: list) -> str:
    """Mean and standard deviation over orders and seeds; of seconds the median."""
    def number(key):
        return spread([r[key] for r in runs]) if all(isinstance(r.get(key), float) for r in runs) else ""
    if method == "multitask":
        averages = [statistics.mean(r["together"]) for r in runs]
        return f"| {method} | {spread(averages)} | | | | | |"
    kept = statistics.mean(r["costs"][-1]["kept_bytes"] for r in runs) / 1024
    seconds = statistics.median(sum(c["seconds"] for c in r["costs"]) for r in runs)
    return f"| {method} | {number('AP')} | {number('FT')} | {number('BWT')} | {number('FWT')} | {kept:,.0f} | {seconds:,.0f} |"


def matrix(name: str, runs: list) -> str:
    """Of one order: means over the seeds."""
    tasks = runs[0]["tasks"]
    lines = [f"\n{name}\n\n| after | " + " | ".join(tasks) + " |\n|---|" + "---|" * len(tasks)]
    for task, *rows in zip(["nothing", *tasks], *([run["before"], *run["matrix"]] for run in runs)):
        lines.append(f"| {task} | " + " | ".join(f"{statistics.mean(x):.3f}" for x in zip(*rows)) + " |")
    return "\n".join(lines)


def small_model(args, data: pathlib.Path) -> pathlib.Path:
    """Three layers of width 96 and 1,024 pieces, which have read --small steps of 2,048 tokens of the training set's novels."""
    run, model = TernRuns(args), args.work / "small/model"
    if not model.exists():
        with lzma.open(data / "text/books/train.txt.xz", "rt", encoding="utf-8") as books:
            text = books.read(12_000_000)
        (args.work / "novels.txt").write_text(text, encoding="utf-8")
        (args.work / "novels_begin.txt").write_text(text[:2_000_000], encoding="utf-8")
        if not (args.work / "small-tokenizer").exists():
            run.tern("tokenize", "--train", "--vocab-size", 1024, "--input", "novels_begin.txt", "--output", "small-tokenizer")
        if not (args.work / "small-sizes").exists():
            run.tern("new", "--layers", 3, "--width", 96, "--heads", 4, "--kv-heads", 2, "--context", 512, "--tokenizer",
                     "small-tokenizer", "--output", "small-sizes")
        run.tern("train", "small-sizes", "--from-scratch", "--data", "novels.txt", "--seq", 256, "--batch", 8, "--steps", args.small,
                 "--learning-rate", "4e-3", "--schedule", "cosine", "--warmup-steps", 50, "--dtype", "f32", "--output", "small",
                 *(["--threads", args.threads] if args.threads else []))
    return model


def study(args, tasks) -> bool:
    runs, names = Study(args, tasks), tasks.names
    alone = {n: runs.stream([n], "seqlora", 1) for n in names}
    print(f"| task, {tasks.unit} | as it came | to be passed | alone |\n|---|---|---|---|")
    stays = []
    for n in names:
        before, after = alone[n]["before"][0], alone[n]["matrix"][0][0]
        floor = tasks.floor(n, before)
        print(f"| {n} | {before:.3f} | {floor:.3f} | {after:.3f} |")
        if args.quick or tasks.sign * (after - floor) >= tasks.least:
            stays.append(n)
    print("\nall are kept, whether they pass that or not: --quick tries the program, not the methods" if args.quick else
          "\nleft out, as a run on them alone does not pass that: " + (", ".join(n for n in names if n not in stays) or "none"), flush=True)
    if len(stays) < 2:
        print("\nfewer than two tasks are left: no stream of them is run")
        return False
    orders, seeds = orders_of(stays, args.orders), range(1, args.seeds + 1)
    print(f"\n{len(orders)} orders × {len(seeds)} seeds, {tasks.steps} steps a task, {tasks.unit}\n")
    print("| method | AP | FT | BWT | FWT | KiB kept | seconds |\n|---|---|---|---|---|---|---|", flush=True)
    matrices = []
    for method in filter(None, args.methods.split(",")):
        of = orders[:1] if method == "multitask" else orders  # all together have no order
        results = {(k, seed): runs.stream(order, method, seed) for k, order in enumerate(of) for seed in seeds}
        print(row(method, list(results.values())), flush=True)
        if method != "multitask":
            matrices += [matrix(f"{method}, order {k + 1}", [results[k, seed] for seed in seeds]) for k in range(len(orders))]
    if args.matrices:
        print("\n".join(matrices))
    return True


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--work", type=pathlib.Path, required=True)
    p.add_argument("--tern", type=pathlib.Path, default=ROOT / "build/release/bin/tern")
    p.add_argument("--model", type=pathlib.Path, default=ROOT / "examples/novels-6m")
    p.add_argument("--streams", default="texts,questions")
    p.add_argument("--texts", default=",".join(TEXTS), help="of " + ", ".join(TEXTS))
    p.add_argument("--questions", default=",".join(QUESTIONS), help="of " + ", ".join(QUESTIONS))
    p.add_argument("--methods", default=",".join(METHODS), help="empty: only which tasks stay")
    p.add_argument("--orders", type=int, default=3)
    p.add_argument("--seeds", type=int, default=3)
    p.add_argument("--steps", type=int, default=100)
    p.add_argument("--question-steps", type=int, help="of a task of questions; not given: --steps")
    p.add_argument("--bytes", type=int, default=200_000)
    p.add_argument("--rows", type=int, default=1_000)
    p.add_argument("--longest", type=int, default=700, help="characters of a question, so that most fit a window")
    p.add_argument("--windows", type=int, default=128, help="of each test, and of each task's data that are looked at")
    p.add_argument("--asked", type=int, help="questions of each test; not given: --windows")
    p.add_argument("--small", type=int, metavar="STEPS", help="instead of --model: train a small model first, so long")
    p.add_argument("--threads", type=int, help="of tern")
    p.add_argument("--rank", type=int, default=8)
    p.add_argument("--seq", type=int, default=128)
    p.add_argument("--batch", type=int, default=8)
    p.add_argument("--rate", default="2e-3")
    p.add_argument("--dtype", default="f32", help="of tern: f32 or bf16")
    p.add_argument("--quick", action="store_true", help="three tasks each, one order, one seed, 4 steps: minutes, to see that it runs")
    p.add_argument("--matrices", action="store_true")
    p.add_argument("--results", type=pathlib.Path, help="a line for each run that is done, on any machine")
    args = p.parse_args()
    if args.quick:
        args.texts, args.questions, args.orders, args.seeds = "plays,code,sums", "SST-2,agnews,COPA", 1, 1
        args.steps, args.windows, args.bytes, args.rows = 4, 8, 40_000, 200
    data = os.environ.get("TERN_DATA")
    if not data:
        print("streams: TERN_DATA is not set; it names the folder of texts", file=sys.stderr)
        return 2
    args.tern, args.model, args.work = args.tern.resolve(), args.model.resolve(), args.work.resolve()
    claim_folder(args, "model " + DECIDES)
    if args.small:
        args.model = small_model(args, pathlib.Path(data))
    for name in args.streams.split(","):
        print(f"\n## {name}\n")
        study(args, {"texts": Texts, "questions": Questions}[name](args, pathlib.Path(data)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
