#!/usr/bin/env python3
"""Writes tests/golden/packed/: small matrices as other programs pack them, and the numbers that they stand for; and what
tests/golden/packed/bitsandbytes.nf4.safetensors was made of, tests/golden/weight_types/nf4.numbers.

  dev/golden/packed_weights.py      needs torch, safetensors, compressed-tensors 0.20, bitsandbytes 0.50, gguf 0.19

GPTQ and AWQ: packed here as gptqmodel 7.7 (nn_modules/qlinear/__init__.py, pack_block; utils/model.py, convert_gptq_v2_to_v1_format) and
autoawq 0.2.9 (awq/modules/linear/gemm.py, from_linear) do. compressed-tensors by its own pack_to_int32, NF4 by bitsandbytes.
"expected" is s·(q − z) in f32, NF4's as bitsandbytes decodes.
"""
import pathlib

import numpy as np
import torch
from safetensors.torch import save_file

ROOT = pathlib.Path(__file__).resolve().parents[2] / "tests/golden/packed"
NAME = "model.layers.0.self_attn.q_proj"
OUT, IN = 32, 128


def stream(codes, bits):
    """Codes along the first axis as a stream of bits in words of 32."""
    n, m = codes.shape
    flat = ((codes[:, None, :] >> np.arange(bits)[None, :, None]) & 1).reshape(n * bits // 32, 32, m).astype(np.uint64)
    return (flat << np.arange(32, dtype=np.uint64)[None, :, None]).sum(1).astype(np.uint32).view(np.int32)


def affine(rng, bits, group, symmetric, act_order=False):
    groups = IN // group
    q = rng.integers(0, 2**bits, (OUT, IN))
    s = rng.uniform(0.002, 0.03, (OUT, groups)).astype(np.float16)
    z = np.full((OUT, groups), 2 ** (bits - 1)) if symmetric else rng.integers(1, 2**bits, (OUT, groups))
    order = np.arange(IN) // group
    if act_order:
        order = rng.permutation(order)
    return q, s, z, order, s.astype(np.float32)[:, order] * (q - z[:, order]).astype(np.float32)


def tensor(x):
    return torch.from_numpy(np.ascontiguousarray(x))


def gptq(rng, bits, group, symmetric, act_order=False, v2=False):
    q, s, z, order, expected = affine(rng, bits, group, symmetric, act_order)
    zeros = stream(z if v2 else z - 1, bits).T  # zeros of 1 or more: nothing is carried
    return {f"{NAME}.qweight": tensor(stream(q.T, bits)), f"{NAME}.qzeros": tensor(zeros),
            f"{NAME}.scales": tensor(s.T), f"{NAME}.g_idx": tensor(order.astype(np.int32)), "expected": tensor(expected)}


def awq(rng, group):
    q, s, z, order, expected = affine(rng, 4, group, False)

    def packed(x):  # (rows, columns)
        words = np.zeros((x.shape[0], x.shape[1] // 8), np.uint32)
        for nibble, column in enumerate([0, 2, 4, 6, 1, 3, 5, 7]):
            words |= x[:, column::8].astype(np.uint32) << np.uint32(4 * nibble)
        return tensor(words.view(np.int32))
    return {f"{NAME}.qweight": packed(q.T), f"{NAME}.qzeros": packed(z.T), f"{NAME}.scales": tensor(s.T), "expected": tensor(expected)}


def compressed(rng, bits, group, symmetric, act_order=False):
    from compressed_tensors.compressors.pack_quantized.helpers import pack_to_int32
    q, s, z, order, expected = affine(rng, bits, group, symmetric, act_order)
    scales = torch.from_numpy(s).to(torch.bfloat16)
    middle = 2 ** (bits - 1)
    expected = scales.float().numpy()[:, order] * (q - z[:, order]).astype(np.float32)
    out = {f"{NAME}.weight_packed": pack_to_int32(tensor((q - middle).astype(np.int8)), bits),
           f"{NAME}.weight_shape": torch.tensor([OUT, IN]), f"{NAME}.weight_scale": scales, "expected": tensor(expected)}
    if not symmetric:
        out[f"{NAME}.weight_zero_point"] = pack_to_int32(tensor((z - middle).astype(np.int8)), bits, packed_dim=0).contiguous()
    if act_order:
        out[f"{NAME}.weight_g_idx"] = tensor(order.astype(np.int32))
    return out


def int_quantized(rng):
    q = rng.integers(-127, 128, (OUT, IN)).astype(np.int8)
    s = torch.from_numpy(rng.uniform(0.0005, 0.003, (OUT, 1)).astype(np.float32)).to(torch.bfloat16)
    return {f"{NAME}.weight": tensor(q), f"{NAME}.weight_scale": s, "expected": s.float() * tensor(q).float()}


def mxfp4(rng):
    """Any codes, every exponent that leaves normal numbers: packed as compressed-tensors' pack_fp4_to_uint8 does (the first of two numbers
    in the lower half), the numbers by the gguf package, whose blocks have numbers 0 to 15 in the lower halves. Its -0 is 0."""
    import gguf
    codes = rng.integers(0, 16, (OUT, IN // 32, 32), dtype=np.uint8)
    exponents = np.resize(np.arange(8, 248, dtype=np.uint8), (OUT, IN // 32))
    blocks = np.concatenate([exponents[..., None], codes[..., :16] | codes[..., 16:] << 4], axis=-1)
    expected = gguf.dequantize(blocks.reshape(OUT, -1), gguf.GGMLQuantizationType.MXFP4).astype(np.float32)
    return {f"{NAME}.weight_packed": (codes[..., 0::2] | codes[..., 1::2] << 4).reshape(OUT, IN // 2), f"{NAME}.weight_scale": exponents,
            "expected": expected}


def nf4(rng, nested, block):
    import bitsandbytes.functional as bnb
    x = torch.from_numpy(rng.normal(0, 0.02, (OUT, IN)).astype(np.float32))
    if block == 64 and not nested:  # what bitsandbytes.nf4 codes
        (ROOT.parent / "weight_types/nf4.numbers").write_bytes(x.numpy().tobytes())
    codes, state = bnb.quantize_4bit(x, blocksize=block, quant_type="nf4", compress_statistics=nested)
    expected = bnb.dequantize_4bit(codes, state).float().contiguous()
    out = {f"{NAME}.weight": codes, "expected": expected}
    for key, value in state.as_dict(packed=True).items():
        out[f"{NAME}.weight.{key}"] = value
    return out


def main():
    rng = np.random.default_rng(21)
    cases = {
        "gptq.4-128-symmetric": gptq(rng, 4, 128, True), "gptq.4-64": gptq(rng, 4, 64, False), "gptq_v2.4-64": gptq(rng, 4, 64, False, v2=True),
        "gptq.4-32": gptq(rng, 4, 32, False), "gptq.4-32-act-order": gptq(rng, 4, 32, True, True), "gptq.3-64": gptq(rng, 3, 64, False),
        "gptq.2-64": gptq(rng, 2, 64, False), "gptq.8-128-symmetric": gptq(rng, 8, 128, True), "gptq.8-64": gptq(rng, 8, 64, False),
        "awq.4-64": awq(rng, 64), "awq.4-128": awq(rng, 128),
        "compressed.4-128-symmetric": compressed(rng, 4, 128, True), "compressed.4-64": compressed(rng, 4, 64, False),
        "compressed.4-32-act-order": compressed(rng, 4, 32, True, True), "compressed.8-128-symmetric": compressed(rng, 8, 128, True),
        "compressed.int8": int_quantized(rng),
        "bitsandbytes.nf4": nf4(rng, False, 64), "bitsandbytes.nf4-nested": nf4(rng, True, 64), "bitsandbytes.nf4-128": nf4(rng, True, 128),
        "compressed.mxfp4": {k: tensor(v) for k, v in mxfp4(np.random.default_rng(22)).items()},
    }
    ROOT.mkdir(parents=True, exist_ok=True)
    for name, tensors in cases.items():
        save_file({k: v.contiguous() for k, v in tensors.items()}, ROOT / f"{name}.safetensors")
        print(name, {k: (str(v.dtype), tuple(v.shape)) for k, v in tensors.items()})


if __name__ == "__main__":
    main()
