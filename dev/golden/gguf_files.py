#!/usr/bin/env python3
"""Small GGUF files by the format's own Python package (gguf 0.19), and what its reference makes of them.

  dev/golden/gguf_files.py            writes tests/golden/gguf/: blocks of every type tern reads with their floats, a file
                                      of every kind of metadata, a vector and its Q8_0
  dev/golden/gguf_files.py --check F  reads F, which tern wrote, and prints its keys and tensors
"""
import json
import pathlib
import sys

import gguf
import numpy as np
from gguf import GGMLQuantizationType as T

ROOT = pathlib.Path(__file__).resolve().parents[2] / "tests/golden/gguf"
TYPES = [T.F32, T.F16, T.BF16, T.Q8_0, T.Q4_0, T.Q4_1, T.Q5_0, T.Q5_1, T.Q2_K, T.Q3_K, T.Q4_K, T.Q5_K, T.Q6_K, T.IQ4_NL, T.IQ4_XS,
         T.IQ3_S, T.IQ3_XXS, T.IQ2_S, T.IQ2_XS, T.IQ2_XXS, T.MXFP4]
SCALES = {T.Q6_K: [208], T.Q3_K: [108], T.Q2_K: [80, 82], T.Q4_K: [0, 2], T.Q5_K: [0, 2], T.Q4_1: [0, 2], T.Q5_1: [0, 2]}  # else [0]


def blocks(rng, kind):
    """Random blocks: half of them any bytes at all (infinite and odd scales too), half with sane scales."""
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    count = max(4, 1024 // elements)
    raw = rng.integers(0, 256, (count, size), dtype=np.uint8)
    if kind == T.MXFP4:  # every exponent once, then sane ones
        count = 512
        raw = rng.integers(0, 256, (count, size), dtype=np.uint8)
        raw[:256, 0] = np.arange(256)
        raw[256:, 0] = rng.integers(115, 130, 256)
    elif size > 4:
        for at in SCALES.get(kind, [0]):
            scale = rng.uniform(-0.1, 0.1, count).astype(np.float16).view(np.uint8).reshape(count, 2)
            raw[count // 2 :, at : at + 2] = scale[count // 2 :]
    return raw.reshape(1, -1)


def write_golden():
    ROOT.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(6)
    w = gguf.GGUFWriter(ROOT / "types.gguf", "tern-test")
    floats = []
    with np.errstate(all="ignore"):
        for kind in TYPES:
            raw = blocks(rng, kind)
            values = gguf.dequantize(raw, kind).astype(np.float32).reshape(-1)
            floats.append(values)
            w.add_tensor(f"t.{kind.name}", raw if kind not in (T.F32, T.F16) else raw.view(np.float32 if kind == T.F32 else np.float16), raw_dtype=kind)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    np.concatenate(floats).tofile(ROOT / "types.f32")

    rng = np.random.default_rng(5)
    w = gguf.GGUFWriter(ROOT / "metadata.gguf", "llama")
    w.add_uint8("k.u8", 200)
    w.add_int8("k.i8", -100)
    w.add_uint16("k.u16", 60000)
    w.add_int16("k.i16", -30000)
    w.add_uint32("k.u32", 4000000000)
    w.add_int32("k.i32", -2000000000)
    w.add_uint64("k.u64", 2**64 - 1)
    w.add_int64("k.i64", -(2**63))
    w.add_float32("k.f32", 0.5)
    w.add_float64("k.f64", 1e300)
    w.add_bool("k.yes", True)
    w.add_bool("k.no", False)
    w.add_string("k.text", "héllo\n")
    w.add_array("k.strings", ["a", "", "日本"])
    w.add_array("k.ints", [1, -2, 3])
    w.add_array("k.floats", [0.5, -1.0])
    w.add_array("k.bools", [True, False])
    w.add_array("k.nested", [[1, 2], [3]])
    w.add_context_length(4096)
    w.add_custom_alignment(64)
    w.add_tensor("a", np.arange(6, dtype=np.float32).reshape(2, 3))
    w.add_tensor("b", np.arange(5, dtype=np.float16))
    w.add_tensor("c", np.arange(2, dtype=np.float32).reshape(1, 1, 2))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()

    x = np.concatenate([rng.normal(size=512), np.zeros(32), rng.normal(size=32) * 1e-7, [0.5 / 127 * k for k in range(-16, 16)], np.arange(32) * 1000.0]).astype(np.float32)
    x.tofile(ROOT / "quantize.f32")
    for kind in [T.Q8_0, T.Q5_1, T.Q5_0, T.Q4_1, T.Q4_0]:
        gguf.quantize(x.reshape(1, -1), kind).tofile(ROOT / f"quantize.{kind.name.lower()}")
    x.astype(np.float16).tofile(ROOT / "quantize.f16")
    gguf.quantize(x.reshape(1, -1), T.BF16).tofile(ROOT / "quantize.bf16")
    for path in sorted(ROOT.iterdir()):
        print(path.name, path.stat().st_size)


def check(path):
    r = gguf.GGUFReader(path)
    out = {"keys": {}, "tensors": {}}
    for name, field in r.fields.items():
        out["keys"][name] = field.contents()
    for t in r.tensors:
        values = gguf.dequantize(t.data, t.tensor_type).astype(np.float64)
        out["tensors"][t.name] = {"type": t.tensor_type.name, "shape": [int(n) for n in t.shape], "sum": float(values.sum())}
    print(json.dumps(out, ensure_ascii=False, indent=1, default=str))


if __name__ == "__main__":
    check(sys.argv[2]) if sys.argv[1:2] == ["--check"] else write_golden()
