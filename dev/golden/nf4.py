#!/usr/bin/env python3
"""Writes tests/golden/weight_types/nf4.{blocks,f32}: blocks of NF4 as tern stores them (the scale, then 32 bytes of codes), and what
bitsandbytes 0.50 decodes them to on the CPU.

  dev/golden/nf4.py       needs torch, bitsandbytes
"""
import pathlib

import bitsandbytes.functional as bnb
import torch

ROOT = pathlib.Path(__file__).resolve().parents[2] / "tests/golden/weight_types"
ROOT.mkdir(parents=True, exist_ok=True)
generator = torch.Generator().manual_seed(7)
x = torch.randn(16, 64, generator=generator)
x[0] = 0
x[1, 3] = 1000
x[2] *= 1e-30
x[3] = torch.linspace(-1, 1, 64)
codes, state = bnb.quantize_4bit(x.reshape(-1), blocksize=64, quant_type="nf4", compress_statistics=False)
floats = bnb.dequantize_4bit(codes, state).to(torch.float32)
scales = state.absmax.to(torch.float32).numpy().view("uint8").reshape(16, 4)
codes = codes.numpy().reshape(16, 32)
(ROOT / "nf4.blocks").write_bytes(b"".join(s.tobytes() + c.tobytes() for s, c in zip(scales, codes)))
(ROOT / "nf4.f32").write_bytes(floats.numpy().tobytes())
for path in sorted(ROOT.iterdir()):
    print(path.name, path.stat().st_size)
