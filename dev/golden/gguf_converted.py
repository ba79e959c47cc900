#!/usr/bin/env python3
"""What llama.cpp's own converter makes of the golden models of families: keys, and each tensor's shape and bytes.

  dev/golden/gguf_converted.py LLAMA_CPP      writes tests/golden/gguf/converted.json; LLAMA_CPP: its sources (the source archive of
                                              llama-cpp-python 0.3.36 has them), needs torch, transformers, gguf, safetensors
"""
import json
import pathlib
import sys
import tempfile

import numpy as np
import torch
from safetensors.torch import save_file

from values import golden_values

GOLDEN = pathlib.Path(__file__).resolve().parents[2] / "tests/golden"
# The golden configurations, and what llama.cpp's code fixes for the architecture.
CASES = {
    "llama3": {}, "qwen3": {}, "mixtral": {}, "qwen2_moe": {}, "qwen3_moe": {"num_experts": 8, "num_local_experts": None},
    "gemma": {}, "gemma2": {"query_pre_attn_scalar": 10},
    "gemma3": {"query_pre_attn_scalar": 8, "layer_types": ["sliding_attention"] * 3,
               "rope_parameters": {"full_attention": {"rope_theta": 1000000.0, "rope_type": "default"},
                                   "sliding_attention": {"rope_theta": 10000.0, "rope_type": "default"}}},
    "gpt_neox": {"rotary_pct": 0.5}, "falcon_7b": {"ffn_hidden_size": 128, "num_kv_heads": 1}, "falcon_40b": {"ffn_hidden_size": 128}, "bloom": {}, "bloom_six_heads": {},
}
SKIPPED = ("general.", "tokenizer.", "GGUF.")


def crc32c(data):
    table = []
    for n in range(256):
        for _ in range(8):
            n = (n >> 1) ^ (0x82F63B78 if n & 1 else 0)
        table.append(n)
    crc = 0xFFFFFFFF
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def widened(name, shape, changes):
    """Falcon's converter writes four times the width for the MLP, whatever the model has: the golden models' MLPs are wider here."""
    if "ffn_hidden_size" in changes and "dense_h_to_4h" in name:
        return [changes["ffn_hidden_size"]] + shape[1:]
    if "ffn_hidden_size" in changes and "dense_4h_to_h" in name:
        return [shape[0], changes["ffn_hidden_size"]]
    return shape


def converted(name, changes, module, gguf):
    given = json.loads((GOLDEN / "families" / f"{name}.json").read_text())
    config = {**given["config"], **changes}
    config = {k: v for k, v in config.items() if not (k in changes and v is None)}
    tensors = {n: {**about, "shape": widened(n, about["shape"], changes)} for n, about in given["tensors"].items()}
    with tempfile.TemporaryDirectory() as folder:
        here = pathlib.Path(folder)
        (here / "config.json").write_text(json.dumps(config))
        (here / "tokenizer.json").write_text(json.dumps({"model": {"vocab": {str(i): i for i in range(config["vocab_size"])}}, "added_tokens": []}))
        numbers = {}
        for n, about in tensors.items():
            count = int(np.prod(about["shape"]))
            numbers[n] = (np.float32(about["middle"]) + golden_values(n, count, about["spread"])).reshape(about["shape"]).contiguous()
        save_file(numbers, here / "model.safetensors", {"format": "pt"})
        hparams = {**module.ModelBase.load_hparams(here, False), **config}
        architecture = module.get_model_architecture(hparams, module.ModelType.TEXT)
        model = module.get_model_class(architecture)
        model.set_vocab = lambda self: None
        with torch.inference_mode():
            model(here, gguf.LlamaFileType.ALL_F32, here / "m.gguf", use_temp_file=False, eager=True, hparams=hparams).write()
        r = gguf.GGUFReader(here / "m.gguf")
        keys = {k: f.contents() for k, f in r.fields.items() if not k.startswith(SKIPPED)}
        return {"config": config, "tensors": tensors, "keys": keys, "architecture": r.fields["general.architecture"].contents(),
                "converted": {t.name: {"type": t.tensor_type.name, "shape": [int(x) for x in t.data.shape], "crc32c": crc32c(t.data.tobytes())}
                              for t in r.tensors}}


def main(llama):
    sys.path.insert(0, str(pathlib.Path(llama) / "gguf-py"))
    sys.path.insert(0, llama)
    import gguf
    import conversion
    out = {name: converted(name, changes, conversion, gguf) for name, changes in CASES.items()}
    (GOLDEN / "gguf/converted.json").write_text("{\n" + ",\n".join(f" {json.dumps(n)}: {json.dumps(v)}" for n, v in out.items()) + "\n}\n")


if __name__ == "__main__":
    main(sys.argv[1])
