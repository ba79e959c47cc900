#!/usr/bin/env python3
"""Embedding gradients of real text: how many rows a step touches, and what each way of summing them over ranks would send.

Consecutive windows of the text are dealt to N ranks, as training deals them; rows are counted, bytes are closed forms per rank and step
in f32, for an embedding table of V rows and D columns that is not tied to the head:
  dense            2 (N-1)/N V D 4                         all-reduce, what tern does
  rows             (N-1) k (4 D + 4)                       all-gather of the k rows that a rank touches, with their numbers
  columns          2 (N-1)/N k D 4 + (N-1) t 4             EmbRace: each rank has D/N columns; rows there and gradients back, t ids to all
  sketch           2 (N-1)/N (V/8 + 1.3 u D 4)             S2: a bitmap, and 1.3 cells for each of the u rows that any rank touches
A table that is tied to the head has a gradient in every row: dense is all there is.

  benchmarks/updates/sparse.py --tern build/release/bin/tern --tokenizer DIR --text FILE --rows V --width D
      [--parameters P] [--folder DIR]
"""

import argparse
import array
import json
import pathlib
import struct
import subprocess
import tempfile


def tokens_of(tern, tokenizer, text, folder):
    out = pathlib.Path(folder) / "sparse.tokens"
    if not out.exists():
        subprocess.run([tern, "tokenize", tokenizer, "--pack", "--input", text, "--output", out], check=True, stdout=subprocess.DEVNULL)
    data = out.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    tensor = json.loads(data[8:8 + size])["tokens"]
    begin, end = tensor["data_offsets"]
    return array.array("H" if tensor["dtype"] == "U16" else "i", data[8 + size + begin:8 + size + end])


def rows_touched(tokens, t, ranks, most=200):
    """Mean numbers of rows that one rank's t tokens touch, and that any rank's do."""
    step, own, union, count = t * ranks, 0, 0, 0
    for begin in range(0, len(tokens) - step + 1, step):
        parts = [set(tokens[begin + r * t:begin + (r + 1) * t]) for r in range(ranks)]
        own += sum(map(len, parts)) / ranks
        union += len(set().union(*parts))
        count += 1
        if count == most:
            break
    return (own / count, union / count) if count else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tern", required=True)
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--text", required=True)
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--width", type=int, required=True)
    parser.add_argument("--parameters", type=int, help="of the whole model: the share of the gain in all gradients")
    parser.add_argument("--folder")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        tokens = tokens_of(given.tern, given.tokenizer, given.text, given.folder or scratch)
    vocabulary, width = given.rows, given.width
    print(f"{len(tokens):,} tokens, {vocabulary:,} rows of {width}; MB per rank and step\n")
    print("| ranks | tokens of a rank | rows of a rank | of any rank | dense | rows | columns | sketch | best |\n" + "|---" * 9 + "|")
    for ranks in (2, 4, 8):
        for t in (16, 128, 512, 2048, 8192):
            touched = rows_touched(tokens, t, ranks)
            if not touched:
                continue
            k, u = touched
            share = (ranks - 1) / ranks
            ways = {"dense": 2 * share * vocabulary * width * 4, "rows": (ranks - 1) * k * (4 * width + 4),
                    "columns": 2 * share * k * width * 4 + (ranks - 1) * t * 4,
                    "sketch": 2 * share * (vocabulary / 8 + 1.3 * u * width * 4)}
            best = min(ways, key=ways.get)
            gain = f"{best}, {ways['dense'] / ways[best]:.1f} times less"
            if given.parameters and best != "dense":
                rest = 2 * share * 4 * (given.parameters - vocabulary * width)
                gain += f"; of all gradients {100 * (ways['dense'] - ways[best]) / (ways['dense'] + rest):.0f} %"
            cells = " | ".join(f"{bytes_ / 1e6:.3f}" for bytes_ in ways.values())
            print(f"| {ranks} | {t} | {k:.0f} | {u:.0f} | {cells} | {gain} |")


if __name__ == "__main__":
    main()
