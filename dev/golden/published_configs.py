#!/usr/bin/env python3
"""What transformers understands by the published configurations of tests/golden/hf_config_published/configs.json.

Run from the root of the repository with the oracle's Python: `python dev/golden/published_configs.py`. configs.json holds
values of configurations as their publishers wrote them, each with where they were found; to add one, append it there without
`expected` and run this, which fills `expected` for all of them. Nothing here runs at build or test time.
"""
import json
import pathlib

import transformers

FILE = pathlib.Path(__file__).resolve().parents[2] / "tests/golden/hf_config_published/configs.json"
# What a model's class computes with, by transformers' common names; gemma 2 and 3 say hidden_activation.
NAMES = ["vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "max_position_embeddings", "tie_word_embeddings",
         "bos_token_id", "eos_token_id", "pad_token_id"]
SECOND = {"num_key_value_heads": ["num_kv_heads"], "intermediate_size": ["ffn_dim", "ffn_hidden_size", "n_inner"],
          "hidden_act": ["hidden_activation", "activation_function", "activation"],
          "norm_eps": ["rms_norm_eps", "layer_norm_epsilon", "layer_norm_eps", "norm_epsilon"]}
TANH = {"gelu_new", "gelu_fast", "gelu_pytorch_tanh"}


def understood(config):
    c = transformers.AutoConfig.for_model(config["model_type"]).from_dict(dict(config))
    family = config["model_type"]
    out = {name: getattr(c, name, None) for name in NAMES}
    for name, others in SECOND.items():
        for key in ([name] if name != "hidden_act" or family not in ("gemma2", "gemma3_text", "vaultgemma") else []) + others:
            if getattr(c, key, None) is not None:
                out[name] = getattr(c, key)
                break
    if family == "bloom":
        out.pop("max_position_embeddings")  # it has none
        out["intermediate_size"], out["hidden_act"] = 4 * c.hidden_size, "gelu_pytorch_tanh"
    if family in ("opt", "biogpt"):  # PyTorch's, whatever biogpt's file says
        out["norm_eps"] = 1e-5
    if family == "gpt2":
        out["intermediate_size"] = c.n_inner or 4 * c.n_embd
    if family == "falcon" and not c.new_decoder_architecture:
        out["num_key_value_heads"] = 1 if c.multi_query else c.num_attention_heads
    out.setdefault("num_key_value_heads", c.num_attention_heads)
    out["gelu"] = "tanh" if out["hidden_act"] in TANH else "erf" if out["hidden_act"] == "gelu" else "other"
    out.pop("hidden_act")
    rope = getattr(c, "rope_parameters", None) or {}
    if family == "olmo3":
        rope = rope["full_attention"]
    if rope and family != "gemma3_text" and not getattr(c, "alibi", False):
        out["rope"] = {"type": rope["rope_type"], "theta": rope["rope_theta"]}
        if rope.get("factor") is not None:
            out["rope"]["factor"] = rope["factor"]
    if family == "gemma3_text":
        out["rope"] = {"type": rope["full_attention"]["rope_type"], "theta": rope["full_attention"]["rope_theta"]}
    kinds = getattr(c, "layer_types", None) or []
    out["sliding_layers"] = kinds.count("sliding_attention") if kinds else None
    return out


def main():
    entries = json.loads(FILE.read_text())
    for entry in entries:
        entry["expected"] = understood(entry["config"])
    FILE.write_text("[\n" + ",\n".join(json.dumps(e, sort_keys=True) for e in entries) + "\n]\n")
    print(f"{len(entries)} configurations of {len({e['config']['model_type'] for e in entries})} families, "
          f"transformers {transformers.__version__}")


if __name__ == "__main__":
    main()
