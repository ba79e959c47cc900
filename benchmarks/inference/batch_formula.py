#!/usr/bin/env python3
"""Tokens a second of a model larger than its memory, for 1 to 256 prompts at a time, beside the formula.

    ninja -C build/release tern
    benchmarks/inference/batch_formula.py --work DIR [--share 0.5] [--batches 1,2,4,…,256] [--tokens 14]

All continuations of a batch share each pass over the weights. A pass of b of them reads S bytes and multiplies for P(b), both at once. Where reading takes
nothing of the cores, tok/s(b) = b / max(S / disk, P(b)). Else, while both work, reading has the rate disk' and products the share q of theirs, so that

    tok/s(b) = b / (P(b) + (1 − q) S / disk')                   if S q ≤ disk' P(b): products end last
               b / (P(b) / q + (S − disk' P(b) / q) / disk)     else

Beside it stands what tern predicts (as told after loading, which corrects the disk's rate; medians over rounds).

S and the rates are what tern says after loading. P(b) is the time of a pass with all weights in memory, and S (1 / streamed − 1 / kept) more, if that
is not below 0: weights that stream are packed anew for each pass. This term and q are of tern's own probes, so the formula does not judge those. Rounds go
over all batches in turn, with all weights in memory and with what fits, and medians over rounds are compared: other users of the machine are as often
beside the one as beside the other. The crossover is the batch from which products take longer than the disk. Memory is what leaves one continuation `share` of the matrices to stream, and the keys and values and logits of each batch beside it. The time
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


def crossover(rows: list) -> float:
    """Where the line through two neighbours' times of products meets the disk's."""
    for left, right in zip(rows, rows[1:]):
        before, behind = left["load_s"] - left["product_s"], right["product_s"] - right["load_s"]
        if before > 0 and behind >= 0:
            return left["batch"] + (right["batch"] - left["batch"]) * before / (before + behind)
    return None


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
    batches = sorted(int(b) for b in a.batches.split(","))
    in_memory, passes, packing, predicted = [collections.defaultdict(list) for _ in range(4)]
    disk, beside, share = [], [], []
    streamed = {}
    for turn in range(a.rounds):
        for b in batches:
            in_memory[b].append(seconds_of_pass(run(a, b)))
            out = run(a, b, a.base + (1 - a.share) * matrices + b * each)
            if "streaming" not in out:
                sys.exit(f"batch {b}: nothing streams; lower --base")
            s = out["streaming"]
            passes[b].append(seconds_of_pass(out))
            predicted[b].append(s["predicted_tokens_per_s"])
            packing[b].append(1 / s["product_bytes_per_s"]["streamed"] - 1 / s["product_bytes_per_s"]["kept"])
            disk.append(s["disk_bytes_per_s"])
            beside.append(s["at_the_same_time"]["disk_bytes_per_s"])
            share.append(s["at_the_same_time"]["products"])
            streamed[b] = s["bytes_per_token"]
    rate, rate_beside, left = [statistics.median(of) for of in (disk, beside, share)]
    print(f"the disk gives {1e-9 * rate:.2f} GB/s ({1e-9 * min(disk):.2f} to {1e-9 * max(disk):.2f})")
    print(f"while products are computed it gives {1e-9 * rate_beside:.2f} GB/s, and they have {left:.2f} of their rate")
    print("batch  streamed MB  S/disk ms  in memory ms   P(b) ms  pass ms (least, most)  formula tok/s  measured tok/s  measured/formula  predicted tok/s  measured/predicted  binds")
    rows = []
    for b in batches:
        memory, middle = statistics.median(in_memory[b]), statistics.median(passes[b])
        load, product = streamed[b] / rate, memory + streamed[b] * max(0, statistics.median(packing[b]))
        formula, measured = b / seconds_of_both(streamed[b], product, rate, rate_beside, left), b / middle
        foretold = statistics.median(predicted[b])
        rows.append({"batch": b, "predicted": foretold, "streamed_bytes": streamed[b], "disk_bytes_per_s": rate, "disk_beside": rate_beside, "products_left": left, "load_s": load, "in_memory_s": in_memory[b], "product_s": product, "passes_s": passes[b],
                     "formula": formula, "measured": measured})
        print(f"{b:5d}  {1e-6 * streamed[b]:11.1f}  {1e3 * load:9.1f}  {1e3 * memory:12.1f}  {1e3 * product:8.1f}  {1e3 * middle:7.1f} ({1e3 * min(passes[b]):.1f}, "
              f"{1e3 * max(passes[b]):.1f})  {formula:13.2f}  {measured:14.2f}  {measured / formula:16.3f}  {foretold:15.2f}  {measured / foretold:18.3f}  {'the disk' if load > product else 'products'}")
    crossing = crossover(rows)
    print(f"crossover: products take as long as the disk from b = {crossing:.0f} on" if crossing else "no crossover between these batches")
    print(f"farthest from the formula: {max(abs(r['measured'] / r['formula'] - 1) for r in rows):.1%}")
    print(f"farthest from the prediction: {max(abs(r['measured'] / r['predicted'] - 1) for r in rows):.1%}")
    if a.json:
        a.json.write_text(json.dumps({"rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
