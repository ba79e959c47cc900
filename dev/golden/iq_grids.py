#!/usr/bin/env python3
"""Writes kernels/cpu/iq_grids_impl.h: the tables of GGUF's IQ2 and IQ3 types, from the format's own package (gguf 0.19).

Numbers of a point are given by their place among the levels of its type: two bits each for IQ2 (3 levels, 8 numbers a point), three
for IQ3 (8 levels, 4 numbers), the first number lowest.

  dev/golden/iq_grids.py
"""
import pathlib

import numpy as np
from gguf import quants

OUT = pathlib.Path(__file__).resolve().parents[2] / "kernels/cpu/iq_grids_impl.h"
HEAD = """#pragma once
// The tables of GGUF's IQ2 and IQ3 types, written by dev/golden/iq_grids.py from the format's package (gguf 0.19). A
// point's numbers by their place among the levels of its type, the first lowest: 8 of two bits (IQ2), 4 of three (IQ3).

#include <cstdint>

// clang-format off
namespace tern::TERN_ISA_NAMESPACE {
namespace {
"""


def table(cls, bits):
    cls.init_grid()
    levels = [float(x) for x in cls.grid_map]
    grid = cls.grid.reshape(cls.grid_shape)
    codes = [sum(levels.index(x) << (bits * i) for i, x in enumerate(point)) for point in grid.astype(np.float64)]
    text = f"\nconstexpr uint16_t k{cls.__name__.replace('_', '').title()}Points[{len(codes)}] = {{\n"
    for i in range(0, len(codes), 16):
        text += "    " + " ".join(f"{c}," for c in codes[i : i + 16]) + "\n"
    return text + "};\n"


text = HEAD
for cls, bits in ((quants.IQ2_XXS, 2), (quants.IQ2_XS, 2), (quants.IQ2_S, 2), (quants.IQ3_XXS, 3), (quants.IQ3_S, 3)):
    text += table(cls, bits)
OUT.write_text(text + "\n}  // namespace\n}  // namespace tern::TERN_ISA_NAMESPACE\n// clang-format on\n")
print(OUT, OUT.stat().st_size)
