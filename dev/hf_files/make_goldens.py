#!/usr/bin/env python3
"""Golden files of formats/: what safetensors and transformers write, and how transformers understands config files.

Run from the repository root with torch, transformers and safetensors at hand:
    python dev/hf_files/make_goldens.py            writes tests/golden/{safetensors,hf_config}
    python dev/hf_files/make_goldens.py --check    reads what tern wrote (tests/golden/hf_config/ours, written by
                                                   TERN_REGENERATE=1 formats_test) and compares with expected.json
Nothing here runs at build or test time.
"""

import json
import pathlib
import sys

import torch
import transformers
from safetensors.torch import save_file

ROOT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden"
FIELDS = {
    "llama": ["vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
              "num_key_value_heads", "head_dim", "max_position_embeddings", "hidden_act", "rms_norm_eps", "attention_bias",
              "mlp_bias", "tie_word_embeddings", "bos_token_id", "eos_token_id", "pad_token_id", "initializer_range",
              "attention_dropout", "rope_parameters", "dtype"],
    "mistral": ["vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
                "num_key_value_heads", "head_dim", "max_position_embeddings", "hidden_act", "rms_norm_eps", "sliding_window",
                "tie_word_embeddings", "bos_token_id", "eos_token_id", "pad_token_id", "initializer_range",
                "attention_dropout", "rope_parameters", "dtype"],
    "gpt2": ["vocab_size", "n_embd", "n_inner", "n_layer", "n_head", "n_positions", "activation_function",
             "layer_norm_epsilon", "tie_word_embeddings", "bos_token_id", "eos_token_id", "pad_token_id",
             "initializer_range", "attn_pdrop", "resid_pdrop", "embd_pdrop", "dtype"],
}


def values(path):
    config = transformers.AutoConfig.from_pretrained(path)
    result = {"model_type": config.model_type}
    for field in FIELDS[config.model_type]:
        value = getattr(config, field)
        if isinstance(value, torch.dtype):
            value = str(value).removeprefix("torch.")
        if field == "n_inner" and value is None:
            value = 4 * config.n_embd
        result[field] = value
    rope = result.get("rope_parameters")
    if rope:
        rope.pop("type", None)  # the old name of rope_type
    return result


SMALL = dict(vocab_size=512, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=96)
ROPES = {
    "default": {},
    "linear": {"factor": 2.0},
    "dynamic": {"factor": 4.0},
    "yarn": {"factor": 4.0, "original_max_position_embeddings": 512, "attention_factor": 1.25, "beta_fast": 24.0,
             "beta_slow": 2.0, "mscale": 0.5, "mscale_all_dim": 0.75, "truncate": False},
    "llama3": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 256},
    "longrope": {"factor": 4.0, "original_max_position_embeddings": 512, "short_factor": [1.0 + i / 8 for i in range(8)],
                 "long_factor": [2.0 + i for i in range(8)]},
}


def old_form(config):
    """The same configuration as transformers 4 spelled it."""
    c = json.loads(config.to_json_string())
    rope = c.pop("rope_parameters", None)
    if "dtype" in c:
        c["torch_dtype"] = c.pop("dtype")
    c["transformers_version"] = "4.40.0"
    if rope:
        c["rope_theta"] = rope.pop("rope_theta")
        kind = rope.pop("rope_type")
        c["rope_scaling"] = None if kind == "default" else {"type": kind, **rope}
    return c


def write_configs():
    out = ROOT / "hf_config"
    out.mkdir(parents=True, exist_ok=True)
    cases = {}
    for kind, rope in ROPES.items():
        cases[f"llama_{kind}"] = transformers.LlamaConfig(
            **SMALL, num_key_value_heads=2, max_position_embeddings=2048, rms_norm_eps=1e-5, dtype="bfloat16",
            architectures=["LlamaForCausalLM"], rope_parameters={"rope_type": kind, "rope_theta": 500000.0, **rope})
    cases["llama_biased"] = transformers.LlamaConfig(
        **SMALL, head_dim=32, attention_bias=True, mlp_bias=True, tie_word_embeddings=True, hidden_act="gelu_pytorch_tanh",
        attention_dropout=0.1, initializer_range=0.01, bos_token_id=3, eos_token_id=[4, 5], pad_token_id=6)
    cases["mistral"] = transformers.MistralConfig(**SMALL, num_key_value_heads=2, sliding_window=128, head_dim=24, dtype="float16")
    cases["mistral_full"] = transformers.MistralConfig(**SMALL, num_key_value_heads=4, sliding_window=None)
    cases["gpt2"] = transformers.GPT2Config(vocab_size=60000, n_embd=48, n_layer=2, n_head=3, n_positions=128, dtype="float32")
    cases["gpt2_inner"] = transformers.GPT2Config(
        vocab_size=300, n_embd=48, n_layer=2, n_head=3, n_positions=128, n_inner=100, activation_function="gelu",
        resid_pdrop=0.0, embd_pdrop=0.2, attn_pdrop=0.3, bos_token_id=1, eos_token_id=2, tie_word_embeddings=False)
    for name, config in cases.items():
        (out / f"{name}.json").write_text(config.to_json_string())
        (out / f"{name}_v4.json").write_text(json.dumps(old_form(config), indent=2) + "\n")
    # The defaults each family fills in: a file with the sizes alone.
    sizes = {"llama": SMALL, "mistral": {**SMALL, "num_attention_heads": 8},
             "gpt2": dict(vocab_size=60000, n_embd=48, n_layer=2, n_head=3, n_positions=128)}
    for family, least in sizes.items():
        (out / f"{family}_bare.json").write_text(json.dumps({"model_type": family, **least}, indent=2) + "\n")
    # gpt2 under llama's names, and yarn whose factor follows from the lengths.
    (out / "gpt2_alias.json").write_text(json.dumps(
        {"model_type": "gpt2", "vocab_size": 60000, "hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 3,
         "max_position_embeddings": 128}, indent=2) + "\n")
    (out / "llama_outer_length.json").write_text(json.dumps(
        {"model_type": "llama", **SMALL, "max_position_embeddings": 4096, "original_max_position_embeddings": 1024,
         "rope_theta": 20000, "rope_scaling": {"type": "yarn", "factor": 4, "original_max_position_embeddings": 77}},
        indent=2) + "\n")
    expected = {p.stem: values(p) for p in sorted(out.glob("*.json")) if p.stem != "expected"}
    # transformers moves the outer length into the rotary object only when it computes the frequencies
    outer = transformers.AutoConfig.from_pretrained(out / "llama_outer_length.json")
    outer.standardize_rope_params()
    expected["llama_outer_length"]["rope_parameters"] = {k: v for k, v in outer.rope_parameters.items() if k != "type"}
    (out / "expected.json").write_text(json.dumps(expected, indent=1, sort_keys=True) + "\n")


def write_safetensors():
    out = ROOT / "safetensors"
    out.mkdir(parents=True, exist_ok=True)
    n = torch.arange(6)
    tensors = {
        "z.f64": (n / 7).double().reshape(2, 3), "b.f32": (n / 7).float().reshape(3, 2), "a.f32": torch.tensor(1.5),
        "h.f16": (n / 7).half(), "h.bf16": (n / 7).bfloat16().reshape(1, 2, 3), "i64": n - 3, "i32": (n - 3).int(),
        "i16": (n - 3).short(), "u16": (n + 65530).to(torch.uint16), "i8": (n - 3).to(torch.int8), "u8": n.to(torch.uint8),
        "mask": n % 2 == 0, "empty": torch.zeros(0, 4), "odd \"name\"\\ \t\n\u0001 \u00e9\u4e2d": torch.ones(1),
    }
    save_file(tensors, out / "all_dtypes.safetensors", metadata={"format": "pt"})
    save_file({"x": torch.ones(2, 2).to(torch.float8_e4m3fn), "y": torch.ones(3), "z": torch.ones(2, dtype=torch.complex64),
               "u": torch.ones(2, dtype=torch.uint32)}, out / "listed_only.safetensors")
    save_file({}, out / "nothing.safetensors")


def check():
    expected = json.loads((ROOT / "hf_config" / "expected.json").read_text())
    files = sorted((ROOT / "hf_config" / "ours").glob("*.json"))
    bad = 0
    for path in files:
        got, want = values(path), dict(expected[path.stem.removesuffix("_as_v4").removesuffix("_as_v5")])
        if got["model_type"] != "gpt2":
            # An id outside the vocabulary is written as none; numbers a formula would give may be written out.
            want["rope_parameters"] = {**got["rope_parameters"], **want["rope_parameters"]}
        for key in ("bos_token_id", "eos_token_id"):
            if isinstance(want[key], int) and want[key] >= want["vocab_size"]:
                want[key] = None
        if got != want:
            bad += 1
            print(path.name, {k: (got[k], want[k]) for k in got if got[k] != want[k]})
    print(f"{len(files)} files of ours read by transformers {transformers.__version__}, {bad} differ")
    return 1 if bad or not files else 0


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(check())
    write_configs()
    write_safetensors()
