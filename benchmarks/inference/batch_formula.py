#!/usr/bin/env python3
"""Tokens a second of a model larger than its memory, for 1 to 256 prompts at a time, beside the formula.

    ninja -C build/release tern
    benchmarks/inference/batch_formula.py --work DIR [--share 0.5] [--batches 1,2,4,…,256] [--knots 1,16,256] [--tokens 14]

All continuations of a batch share each pass over the weights. A pass of b of them reads S bytes and multiplies for P(b), both at once. Where reading takes
nothing of the cores, tok/s(b) = b / max(S / disk, P(b)). Else, while both work, reading has the rate disk' and products the share q of theirs, so that

    tok/s(b) = b / (P(b) + (1 − q) S / disk')                   if S q ≤ disk' P(b): products end last
               b / (P(b) / q + (S − disk' P(b) / q) / disk)     else

Beside it stands what tern predicts (as told after loading, which corrects the disk's rate; medians over rounds), whose products are those of b rows with weights that stay and with
weights that stream, which are packed anew for each pass.

S and the rates are what tern says before it loads; P(b) is the time of a pass with all weights in memory, measured at a few batches (the knots) and
taken from the line through their neighbours elsewhere. Rounds go over knots and batches in turn, and medians over rounds are
compared: other users of the machine are as often beside the one as beside the other. The crossover is the batch from which products take longer
than the disk. Memory is what leaves one continuation `share` of the matrices to stream, and the keys and values and logits of each batch beside it. The time
of a pass is the median over a run's passes. The page cache is passed by; a file system that refuses that is told by tern's own line. Needs numpy,
which writes the model's random numbers.
"""
import argparse, collections, json, pathlib, statistics, sys

import shapes

ROOT = pathlib.Path(__file__).resolve().parents[2]
shapes.VOCABULARY = 703  # of the tokenizer in tests/golden, so that the head is small beside the layers
SHAPE = shapes.MODELS["batched"] = dict(family="llama", width=1024, layers=16, heads=16, kv_heads=2, head=64, hidden=2816)


def run(a: argparse.Namespace, batch: int, memory=None) -> dict:
    limit = ["--memory", int(memory)] if memory else []
    return shapes.generate(a.tern, a.work / "model", a.tokens, "--samples", batch, *limit, threads=a.threads)


def seconds_of_pass(out: dict) -> float:
    return out["timings"]["decode_step_s"]["median"]


def between(knots: list, batch: int) -> float:
    """The line through the knots beside `batch`; beyond the last, through the last two."""
    if len(knots) == 1:
        return knots[0][1]
    right = next((i for i, (b, _) in enumerate(knots) if b >= batch and i > 0), len(knots) - 1)
    (b0, t0), (b1, t1) = knots[right - 1], knots[right]
    return t0 + (t1 - t0) * (batch - b0) / (b1 - b0)


def crossover(knots: list, load: float, most: int) -> float:
    for batch in range(1, 4 * most):
        if between(knots, batch) >= load:
            return batch
    return float("inf")


def seconds_of_both(size: float, product: float, disk: float, beside: float, left: float) -> float:
    if size * left <= beside * product:
        return product + (1 - left) * size / beside
    return product / left + (size - beside * product / left) / disk


def write_case(a: argparse.Namespace) -> None:
    shapes.write_with_tokenizer("batched", a.work / "model", a.tokenizer)


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--work", type=pathlib.Path, required=True)
    p.add_argument("--tern", type=pathlib.Path, default=ROOT / "build/release/bin/tern")
    p.add_argument("--tokenizer", type=pathlib.Path, default=ROOT / "tests/golden/tokenizers/byte_level", help="of 703 tokens")
    p.add_argument("--share", type=float, default=0.5, help="of the matrices that one prompt streams")
    p.add_argument("--batches", default="1,2,4,8,16,32,64,128,256")
    p.add_argument("--knots", default="1,16,256")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--tokens", type=int, default=14, help="of each continuation")
    p.add_argument("--base", type=int, default=110 << 20, help="bytes for the program itself, its ring and what threads keep")
    p.add_argument("--threads", type=int, default=0)
    p.add_argument("--json", type=pathlib.Path)
    a = p.parse_args()
    write_case(a)
    matrices = (a.work / "model/model.safetensors").stat().st_size - 2 * shapes.VOCABULARY * SHAPE["width"]
    pages = -(-(a.tokens + 2) // 16) * 16
    each = pages * 2 * SHAPE["layers"] * 2 * SHAPE["kv_heads"] * SHAPE["head"] + 2 * 4 * shapes.VOCABULARY  # keys and values in bf16; logits
    batches, knot_batches = [[int(b) for b in text.split(",")] for text in (a.batches, a.knots)]
    in_memory, passes, disk, beside, share = collections.defaultdict(list), collections.defaultdict(list), [], [], []
    predicted = collections.defaultdict(list)
    streamed = {}
    for turn in range(a.rounds):
        for b in sorted(set(batches + knot_batches)):
            if b in knot_batches:
                in_memory[b].append(seconds_of_pass(run(a, b)))
            if b in batches:
                out = run(a, b, a.base + (1 - a.share) * matrices + b * each)
                if "streaming" not in out:
                    sys.exit(f"batch {b}: nothing streams; lower --base")
                passes[b].append(seconds_of_pass(out))
                predicted[b].append(out["streaming"]["predicted_tokens_per_s"])
                disk.append(out["streaming"]["disk_bytes_per_s"])
                beside.append(out["streaming"]["at_the_same_time"]["disk_bytes_per_s"])
                share.append(out["streaming"]["at_the_same_time"]["products"])
                streamed[b] = out["streaming"]["bytes_per_token"]
    knots = [(b, statistics.median(seconds)) for b, seconds in sorted(in_memory.items())]
    rate, rate_beside, left = [statistics.median(of) for of in (disk, beside, share)]
    print("in memory: " + ", ".join(f"a pass of {b} takes {1e3 * s:.1f} ms" for b, s in knots))
    print(f"the disk gives {1e-9 * rate:.2f} GB/s ({1e-9 * min(disk):.2f} to {1e-9 * max(disk):.2f})")
    print(f"while products are computed it gives {1e-9 * rate_beside:.2f} GB/s, and they have {left:.2f} of their rate")
    print("batch  streamed MB  S/disk ms   P(b) ms  pass ms (least, most)  formula tok/s  measured tok/s  measured/formula  predicted tok/s  measured/predicted  binds")
    rows = []
    for b in batches:
        load, product, middle = streamed[b] / rate, between(knots, b), statistics.median(passes[b])
        formula, measured = b / seconds_of_both(streamed[b], product, rate, rate_beside, left), b / middle
        foretold = statistics.median(predicted[b])
        rows.append({"batch": b, "predicted": foretold, "streamed_bytes": streamed[b], "disk_bytes_per_s": rate, "disk_beside": rate_beside, "products_left": left, "load_s": load, "product_s": product, "passes_s": passes[b],
                     "formula": formula, "measured": measured})
        print(f"{b:5d}  {1e-6 * streamed[b]:11.1f}  {1e3 * load:9.1f}  {1e3 * product:8.1f}  {1e3 * middle:7.1f} ({1e3 * min(passes[b]):.1f}, "
              f"{1e3 * max(passes[b]):.1f})  {formula:13.2f}  {measured:14.2f}  {measured / formula:16.3f}  {foretold:15.2f}  {measured / foretold:18.3f}  {'the disk' if load > product else 'products'}")
    loads = sorted(r["load_s"] for r in rows)
    print(f"crossover: products take as long as the disk from b = {crossover(knots, loads[len(loads) // 2], rows[-1]['batch'])} on (disk time: the median)")
    print(f"farthest from the formula: {max(abs(r['measured'] / r['formula'] - 1) for r in rows):.1%}")
    print(f"farthest from the prediction: {max(abs(r['measured'] / r['predicted'] - 1) for r in rows):.1%}")
    if a.json:
        a.json.write_text(json.dumps({"knots": knots, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
