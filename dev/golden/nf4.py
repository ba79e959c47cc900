#!/usr/bin/env python3
"""Writes tests/golden/weight_types/nf4.{blocks,f32}: blocks of NF4 as tern stores them (the scale, then 32 bytes of codes), and what
bitsandbytes 0.50 decodes them to on the CPU; and nf4_1.blocks: of nf4.numbers (dev/golden/packed_weights.py) less an offset that is
searched as htqin/IR-QLoRA does (utils.py, read), with the codes of bitsandbytes: scale, offset, codes.

  dev/golden/nf4.py       needs torch, bitsandbytes
"""
import pathlib
import statistics

import bitsandbytes.functional as bnb
import numpy
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

def nf4(numbers):
    """Codes (n, 32) and scales of blocks of 64."""
    codes, state = bnb.quantize_4bit(numbers.reshape(-1), blocksize=64, quant_type="nf4", compress_statistics=False)
    return codes.reshape(-1, 32), state.absmax.to(torch.float32)


x = torch.from_numpy(numpy.fromfile(ROOT / "nf4.numbers", numpy.float32)).reshape(-1, 64)
median = x.median(1, keepdim=True)[0]
reach = (x - median).abs().max(1, keepdim=True)[0]
sigma = 1 / statistics.NormalDist().inv_cdf(0.9677083)
offset, most = torch.zeros_like(median), torch.full((len(x),), -1.0, dtype=torch.float64)
for factor in numpy.linspace(-0.1 * sigma, 0.1 * sigma, 201):
    tried = (float(factor) * reach.to(torch.float64) + median.to(torch.float64)).to(torch.float32)
    codes, _ = nf4(x - tried)
    codes = torch.cat((codes // 16, codes % 16), 1)
    shares = torch.stack([(codes == level).sum(1) for level in range(16)], 1).to(torch.float64) / 64
    entropy = -torch.where(shares > 0, shares * torch.log2(shares), 0.0).sum(1).round(decimals=12)
    better = entropy > most
    offset[better], most[better] = tried[better], entropy[better]
codes, scales = nf4(x - offset)
(ROOT / "nf4_1.blocks").write_bytes(
    b"".join(s.numpy().tobytes() + o.numpy().tobytes() + c.numpy().tobytes() for s, o, c in zip(scales, offset[:, 0], codes))
)
for path in sorted(ROOT.iterdir()):
    print(path.name, path.stat().st_size)
