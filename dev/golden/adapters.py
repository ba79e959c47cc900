#!/usr/bin/env python3
"""Golden adapters of PEFT 0.21 on the tiny models of tests/golden/models: what PEFT saved, and the logits it gives with them.

Run from the root of the repository with a Python that has torch, transformers and peft==0.21.2: `python
dev/golden/adapters.py`. Writes tests/golden/adapters/NAME/: PEFT's own two files, logits.safetensors (of the tokens in the
model's golden.safetensors) and modules.json, PEFT's rank and scale of every adapted matrix of the layers. With `--check DIR MODEL` it
loads an adapter that tern wrote and prints the logits' largest difference from DIR/logits.safetensors; with `--check-merged DIR NAME`
the same of a model directory that `tern adapt merge` wrote with the golden adapter NAME. Nothing here runs at build or test time.
"""
import json
import pathlib
import sys

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from peft.utils.other import ModulesToSaveWrapper
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODELS = ROOT / "tests" / "golden" / "models"
OUT = ROOT / "tests" / "golden" / "adapters"
torch.set_num_threads(1)

CASES = {
    "names": ("llama", torch.float32, dict(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"], lora_dropout=0.1)),
    "regex": ("llama", torch.float32, dict(
        r=4, lora_alpha=6, use_rslora=True, target_modules=r".*layers\.1\.(self_attn\.(k|o)_proj|mlp\..*_proj)",
        rank_pattern={"k_proj": 2, r"mlp\.(up|down)_proj": 3}, alpha_pattern={"mlp.up_proj": 5, "o_proj": 1.5})),
    "all_linear": ("llama_tied", torch.bfloat16, dict(
        r=2, lora_alpha=3, target_modules="all-linear", exclude_modules=["gate_proj"],
        rank_pattern={"^model.layers.0.self_attn.q_proj": 5})),
    "one_layer": ("mistral", torch.float16, dict(
        r=3, lora_alpha=4, target_modules=["k_proj", "layers.0.mlp.down_proj", "o_proj"], layers_to_transform=[0])),
    "conv1d": ("gpt2", torch.float32, dict(
        r=4, lora_alpha=16, target_modules=["c_attn", "c_proj", "mlp.c_fc"], fan_in_fan_out=True,
        alpha_pattern={"attn.c_proj": 2})),
    "dora": ("llama", torch.float32, dict(
        r=3, lora_alpha=5, use_dora=True, target_modules=["q_proj", "k_proj", "v_proj", "o_proj", "down_proj"],
        rank_pattern={"v_proj": 2}, lora_dropout=0.05)),
    "dora_conv1d": ("gpt2", torch.float32, dict(
        r=2, lora_alpha=4, use_dora=True, use_rslora=True, target_modules=["c_attn", "mlp.c_proj"], fan_in_fan_out=True)),
    # Modules as a whole: saved, or tables and heads with a low rank (their weight stands in PEFT's file, too).
    "saved": ("llama", torch.float32, dict(
        r=2, lora_alpha=4, target_modules=["q_proj"], modules_to_save=["embed_tokens", "lm_head", "input_layernorm", "1.mlp"])),
    "saved_tied": ("llama_tied", torch.float32, dict(
        r=2, lora_alpha=4, target_modules=["v_proj"], modules_to_save=["lm_head"])),
    "saved_conv1d": ("gpt2", torch.float32, dict(
        r=2, lora_alpha=4, target_modules=["c_attn", "wte"], fan_in_fan_out=True, modules_to_save=["c_proj", "ln_f"])),
    "tables": ("llama", torch.float32, dict(
        r=3, lora_alpha=5, target_modules=["embed_tokens", "lm_head", "q_proj"], rank_pattern={"embed_tokens": 2},
        alpha_pattern={"lm_head": 2})),
    "tables_tied": ("gpt2", torch.float32, dict(
        r=2, lora_alpha=3, use_rslora=True, target_modules=["wte", "wpe", "c_attn"], fan_in_fan_out=True)),
    "tables_dora": ("llama", torch.float32, dict(
        r=2, lora_alpha=3, use_dora=True, target_modules=["embed_tokens", "lm_head", "v_proj"])),
}


def logits_of(model, golden):
    with torch.no_grad():
        return model(golden["tokens"].long()).logits.float().contiguous()


def make(name):
    base, dtype, settings = CASES[name]
    torch.manual_seed(len(name))
    golden = load_file(MODELS / base / "golden.safetensors")
    model = AutoModelForCausalLM.from_pretrained(MODELS / base, dtype=torch.float32)
    model = get_peft_model(model, LoraConfig(task_type="CAUSAL_LM", init_lora_weights=False, **settings))
    modules = {}
    with torch.no_grad():
        for path, module in model.named_modules():
            if isinstance(module, ModulesToSaveWrapper):
                for part in module.modules_to_save.parameters():
                    part.add_(0.3 * torch.randn_like(part) * (part.std() + 0.1))
            if not hasattr(module, "lora_A"):
                continue
            parts = [part["default"].weight for part in (module.lora_A, module.lora_B) if "default" in part]
            parts += [part["default"] for part in (module.lora_embedding_A, module.lora_embedding_B) if "default" in part]
            for part in parts:  # what the file holds is what is multiplied
                part.normal_(0, 0.2)
                part.copy_(part.to(dtype))
            if getattr(module, "lora_magnitude_vector", None):  # DoRA
                for part in module.lora_magnitude_vector.parameters():
                    part.mul_(1 + 0.2 * torch.randn_like(part))
            path = path.removeprefix("base_model.model.")
            if "default" in module.lora_A and path != "lm_head":
                modules[path] = {"rank": module.r["default"], "scale": module.scaling["default"]}
    model.eval()
    where = OUT / name
    logits = logits_of(model, golden)
    for part in model.parameters():
        part.data = part.data.to(dtype)
    model.save_pretrained(where)
    (where / "README.md").unlink(missing_ok=True)
    config = json.loads((where / "adapter_config.json").read_text())
    config["base_model_name_or_path"] = base
    (where / "adapter_config.json").write_text(json.dumps(config, indent=2) + "\n")
    save_file({"logits": logits}, where / "logits.safetensors")
    (where / "modules.json").write_text(json.dumps({"model": base, "modules": modules}, indent=1) + "\n")
    print(name, len(modules), "modules", sum(f.stat().st_size for f in where.iterdir()), "bytes")


def check(where, base):
    golden = load_file(MODELS / base / "golden.safetensors")
    model = AutoModelForCausalLM.from_pretrained(MODELS / base, dtype=torch.float32)
    model = PeftModel.from_pretrained(model, where).eval()
    want = load_file(pathlib.Path(where) / "logits.safetensors")["logits"]
    got = logits_of(model, golden).reshape(want.shape)
    print("largest difference", (got - want).abs().max().item(), "of", want.abs().max().item())


def check_merged(where, name):
    base = CASES[name][0]
    golden = load_file(MODELS / base / "golden.safetensors")
    model = AutoModelForCausalLM.from_pretrained(where, dtype=torch.float32).eval()
    want = load_file(OUT / name / "logits.safetensors")["logits"]
    got = logits_of(model, golden).reshape(want.shape)
    print("largest difference", (got - want).abs().max().item(), "of", want.abs().max().item())


if __name__ == "__main__":
    if sys.argv[1:2] == ["--check-merged"]:
        check_merged(sys.argv[2], sys.argv[3])
    elif sys.argv[1:2] == ["--check"]:
        check(sys.argv[2], sys.argv[3])
    else:
        for case in sys.argv[1:] or CASES:
            make(case)
