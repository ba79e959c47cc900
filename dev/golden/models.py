#!/usr/bin/env python3
"""Golden files of the model units: logits, every gradient and ten AdamW steps of tiny random models, by transformers + torch.

Run from the root of the repository with the oracle's Python: `python dev/golden/models.py`. Writes
tests/golden/models/NAME/{config.json, model.safetensors, golden.safetensors} and tests/golden/rope/rope.safetensors.
Deterministic: fixed seeds, one thread, f32 (plus torch's own bf16 logits, for information).
"""
import json
import pathlib

import torch
import transformers
from safetensors.torch import save_file
from transformers import GPT2Config, LlamaConfig, MistralConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = ROOT / "tests" / "golden" / "models"
BATCH, SEQ, STEPS = 2, 16, 10

torch.set_num_threads(1)
torch.use_deterministic_algorithms(True)

COMMON = dict(vocab_size=48, hidden_size=32, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4,
              num_key_value_heads=2, max_position_embeddings=64, bos_token_id=1, eos_token_id=2)
LLAMA3 = {"rope_type": "llama3", "rope_theta": 100.0, "factor": 4.0, "original_max_position_embeddings": 16,
          "low_freq_factor": 1.0, "high_freq_factor": 4.0}
MODELS = {
    "llama": (LlamaConfig(**COMMON, rope_parameters=LLAMA3, tie_word_embeddings=False), 1),
    "llama_tied": (LlamaConfig(**COMMON, head_dim=6, attention_bias=True, mlp_bias=True, tie_word_embeddings=True), 2),
    "mistral": (MistralConfig(**{**COMMON, "num_key_value_heads": 1}, sliding_window=5), 3),
    "gpt2": (GPT2Config(vocab_size=48, n_embd=32, n_layer=2, n_head=4, n_positions=24, n_inner=40, resid_pdrop=0.0,
                        embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=1, eos_token_id=2), 4),
}


def build(config, seed):
    config._attn_implementation = "eager"
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():  # livelier than the usual initialisation, so that every gradient matters
        for name, p in model.named_parameters():
            noise = torch.randn(p.shape, generator=generator)
            is_norm = p.dim() == 1 and name.endswith("weight")
            p.copy_(1 + 0.2 * noise if is_norm else 0.2 * noise)
    return model, torch.randint(0, config.vocab_size, (BATCH, SEQ), generator=generator)


def mean_loss(model, tokens):
    logits = model(tokens, use_cache=False).logits
    flat = logits[:, :-1].reshape(-1, logits.shape[-1])
    return torch.nn.functional.cross_entropy(flat, tokens[:, 1:].reshape(-1)), logits


def write_model(name, config, seed):
    folder = OUT / name
    folder.mkdir(parents=True, exist_ok=True)
    model, tokens = build(config, seed)
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    golden = {"tokens": tokens.to(torch.int32).contiguous()}

    loss, logits = mean_loss(model, tokens)
    loss.backward()
    golden["logits"] = logits.detach().clone()
    for parameter, p in model.named_parameters():
        golden[f"grad.{parameter}"] = p.grad.detach().clone()
    model.zero_grad()

    matrices = [p for p in model.parameters() if p.dim() >= 2]
    others = [p for p in model.parameters() if p.dim() < 2]
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}],
                                  lr=3e-3, betas=(0.9, 0.95), eps=1e-8, foreach=False, fused=False)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss, _ = mean_loss(model, tokens)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    golden["step_losses"] = torch.tensor(losses, dtype=torch.float64)
    for parameter, p in model.named_parameters():
        golden[f"final.{parameter}"] = p.detach().clone()

    rounded = build(config, seed)[0].to(torch.bfloat16)
    with torch.no_grad():
        golden["logits_bf16"] = rounded(tokens, use_cache=False).logits.float()
    save_file(golden, folder / "golden.safetensors")
    print(name, f"loss {losses[0]:.6f} -> {losses[-1]:.6f}", sum(f.stat().st_size for f in folder.iterdir()), "bytes")


def write_rope():
    wide = dict(COMMON, hidden_size=128, num_attention_heads=4)  # 16 pairs
    cases = [
        ("default", {"rope_type": "default", "rope_theta": 10000.0}, 64),
        ("linear", {"rope_type": "linear", "rope_theta": 10000.0, "factor": 2.5}, 64),
        ("dynamic short", {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 3.0}, 40),
        ("dynamic long", {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 3.0}, 200),
        ("llama3", dict(LLAMA3, rope_theta=500000.0, original_max_position_embeddings=8192, factor=8.0), 64),
        ("llama3 small", LLAMA3, 64),
        ("yarn", {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 4096}, 64),
        ("yarn tuned", {"rope_type": "yarn", "rope_theta": 50000.0, "factor": 16.0, "original_max_position_embeddings": 2048,
                        "beta_fast": 16.0, "beta_slow": 2.0, "mscale": 0.7, "mscale_all_dim": 1.2, "truncate": False}, 64),
        ("yarn factor given", {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "attention_factor": 1.25,
                               "original_max_position_embeddings": 1024}, 64),
        ("longrope short", {"rope_type": "longrope", "rope_theta": 10000.0, "original_max_position_embeddings": 32,
                            "short_factor": [1 + 0.05 * i for i in range(16)],
                            "long_factor": [2 + 0.25 * i for i in range(16)]}, 32),
        ("longrope long", {"rope_type": "longrope", "rope_theta": 10000.0, "original_max_position_embeddings": 32,
                           "short_factor": [1 + 0.05 * i for i in range(16)],
                           "long_factor": [2 + 0.25 * i for i in range(16)]}, 33),
    ]
    metadata, tensors = {}, {}  # per case: the config and the declared length; frequencies and last the factor
    for name, parameters, declared in cases:
        stretched = parameters.get("original_max_position_embeddings", 0) * parameters.get("factor", 2)
        config = LlamaConfig(**{**wide, "max_position_embeddings": int(stretched) or 64}, rope_parameters=dict(parameters))
        kind = parameters["rope_type"]
        if kind == "default":
            rotary = transformers.models.llama.modeling_llama.LlamaRotaryEmbedding(config)
            frequencies, factor = rotary.inv_freq, rotary.attention_scaling
        else:
            frequencies, factor = ROPE_INIT_FUNCTIONS[kind](config, device="cpu", seq_len=declared)
        keep = ("model_type", "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
                "num_key_value_heads", "max_position_embeddings", "head_dim", "rope_parameters", "hidden_act", "rms_norm_eps",
                "tie_word_embeddings")
        full = json.loads(config.to_json_string(use_diff=False))
        metadata[name] = json.dumps({k: v for k, v in full.items() if k in keep})
        metadata[name + ", declared context"] = str(declared)
        tensors[name] = torch.tensor([float(f) for f in frequencies] + [float(factor)], dtype=torch.float64)
    folder = ROOT / "tests" / "golden" / "rope"
    folder.mkdir(parents=True, exist_ok=True)
    save_file(tensors, folder / "rope.safetensors", metadata=metadata)


if __name__ == "__main__":
    print("torch", torch.__version__, "transformers", transformers.__version__)
    write_rope()
    for model_name, (model_config, model_seed) in MODELS.items():
        write_model(model_name, model_config, model_seed)
