#!/usr/bin/env python3
"""Tokens a second of a mixture of experts larger than memory against the share of chosen experts that were in memory, beside tern's formula.

    ninja -C build/release tern
    benchmarks/inference/expert_formula.py --work DIR [--shares 0.2,0.4,0.6,0.8] [--rounds 3] [--tokens 100]

A mixture of random bf16 weights (12 layers of 16 experts, of which a token takes 2: 2.1 GB, of which a token chooses 264 MB) answers one prompt with memory for
a share of its experts. What layers add is zero, so that a token alone decides on its experts, in each layer by other numbers: chosen about
equally often. The first tokens find nothing there; they are taken off: each row is the difference of a long run and a short one of the same
tokens. tern counts how many chosen experts were there, h, and says what its formula (infer/stream_times.h) gives with this h and the rates that it measured:
each layer's missing experts are read once the router has answered, and each product waits for its own.
Rounds go over the shares in turn; medians are compared. Needs numpy, which writes the model's random numbers.
"""
import argparse, json, pathlib, statistics

import shapes

ROOT = pathlib.Path(__file__).resolve().parents[2]
shapes.VOCABULARY = 703  # of the tokenizer in tests/golden
SHAPE = shapes.MODELS["experts"] = dict(family="mixtral", width=1024, layers=12, heads=16, kv_heads=4, head=64, hidden=1792, experts=16, top_k=2)


def clear_what_layers_add(path: pathlib.Path) -> None:
    with path.open("r+b") as file:
        header_bytes = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(header_bytes))
        for name, tensor in header.items():
            if name.endswith((".w2.weight", ".o_proj.weight")):
                begin, end = tensor["data_offsets"]
                file.seek(8 + header_bytes + begin)
                file.write(bytes(end - begin))


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--work", type=pathlib.Path, required=True)
    p.add_argument("--tern", type=pathlib.Path, default=ROOT / "build/release/bin/tern")
    p.add_argument("--tokenizer", type=pathlib.Path, default=ROOT / "tests/golden/tokenizers/byte_level", help="of 703 tokens")
    p.add_argument("--shares", default="0.2,0.4,0.6,0.8", help="of the experts that have a place in memory, about")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--first", type=int, default=24, help="tokens that fill the places, and are not counted")
    p.add_argument("--tokens", type=int, default=100)
    p.add_argument("--base", type=int, default=110 << 20, help="bytes for the program itself, its ring and what threads keep")
    p.add_argument("--threads", type=int, default=0)
    p.add_argument("--json", type=pathlib.Path)
    a = p.parse_args()
    shapes.write_with_tokenizer("experts", a.work / "model", a.tokenizer, after=clear_what_layers_add)
    experts = 3 * 2 * SHAPE["width"] * SHAPE["hidden"] * SHAPE["experts"] * SHAPE["layers"]
    beside = (a.work / "model/model.safetensors").stat().st_size - experts
    shares = [float(share) for share in a.shares.split(",")]
    rows = {share: [] for share in shares}
    for turn in range(a.rounds):
        for share in shares:
            memory = int(a.base + beside + share * experts)
            short, long = [shapes.generate(a.tern, a.work / "model", tokens, "--memory", memory, threads=a.threads) for tokens in (a.first, a.first + a.tokens)]
            seconds = long["timings"]["decode_s"] - short["timings"]["decode_s"]
            wanted, hits = [long["streaming"]["experts"][key] - short["streaming"]["experts"][key] for key in ("wanted_matrices", "hits")]
            foretold = [tokens / out["streaming"]["experts"]["predicted_tokens_per_s"] for tokens, out in ((a.first, short), (a.first + a.tokens, long))]
            rows[share].append({"places": long["streaming"]["experts"]["slots"], "hits": hits / wanted, "disk": long["streaming"]["disk_bytes_per_s"],
                                "formula": a.tokens / (foretold[1] - foretold[0]), "measured": a.tokens / seconds})
    middle = lambda share, what: statistics.median(row[what] for row in rows[share])
    print("share  places   hits  disk GB/s  formula tok/s  measured tok/s (least, most)  measured/formula")
    for share in shares:
        all_measured = [row["measured"] for row in rows[share]]
        print(f"{share:5.2f}  {middle(share, 'places'):6.0f}  {middle(share, 'hits'):.3f}  {1e-9 * middle(share, 'disk'):9.2f}  {middle(share, 'formula'):13.2f}  "
              f"{middle(share, 'measured'):14.2f} ({min(all_measured):.2f}, {max(all_measured):.2f})  {middle(share, 'measured') / middle(share, 'formula'):16.3f}")
    if a.json:
        a.json.write_text(json.dumps([{"share": share, "runs": rows[share]} for share in shares], indent=1) + "\n")


if __name__ == "__main__":
    main()
