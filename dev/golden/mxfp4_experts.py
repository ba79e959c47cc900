#!/usr/bin/env python3
"""Writes tests/golden/packed/mxfp4.experts.safetensors: experts as gpt-oss is published, and the numbers that transformers makes of them.

  dev/golden/mxfp4_experts.py      needs torch, safetensors, transformers 5.24

Any pairs of FP4, any exponent that leaves normal numbers. "expected" (experts · out, in); its -0 is 0.
"""
import pathlib

import numpy as np
import torch
from safetensors.torch import save_file
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests/golden/packed/mxfp4.experts.safetensors"
NAME = "model.layers.0.mlp.experts.gate_up_proj"
EXPERTS, ROWS, WIDTH = 3, 8, 64


def main():
    rng = np.random.default_rng(24)
    blocks = torch.from_numpy(rng.integers(0, 256, (EXPERTS, ROWS, WIDTH // 32, 16), dtype=np.uint8))
    scales = torch.from_numpy(np.resize(np.arange(8, 248, 5, dtype=np.uint8), (EXPERTS, ROWS, WIDTH // 32)))
    numbers = convert_moe_packed_tensors(blocks, scales, dtype=torch.float32)  # (experts, in, out), as transformers holds them
    expected = numbers.transpose(1, 2).reshape(EXPERTS * ROWS, WIDTH) + 0.0
    save_file({f"{NAME}_blocks": blocks, f"{NAME}_scales": scales, "expected": expected.contiguous()}, OUT)
    print(OUT, tuple(expected.shape))


if __name__ == "__main__":
    main()
