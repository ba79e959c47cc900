#!/usr/bin/env python3
"""Beginnings of adapters by PEFT 0.21 that take a part of the weights (PiSSA, OLoRA): what each module's adapter adds, scale·B·A.

Run from the root of the repository with a Python that has torch, transformers and peft==0.21.2: `python
dev/golden/adapter_inits.py`. Writes tests/golden/adapter_inits.safetensors, tensors INIT.MODULE of the model tests/golden/models/llama, with
the settings below. Nothing here runs at build or test time.
"""
import pathlib

import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM

ROOT = pathlib.Path(__file__).resolve().parents[2]
torch.set_num_threads(1)

tensors = {}
for init in ("pissa", "olora"):
    model = AutoModelForCausalLM.from_pretrained(ROOT / "tests/golden/models/llama", dtype=torch.float32)
    was = {name: p.detach().clone() for name, p in model.named_parameters()}
    model = get_peft_model(model, LoraConfig(
        task_type="CAUSAL_LM", init_lora_weights=init, r=3, lora_alpha=5, target_modules=["q_proj", "v_proj", "down_proj"]))
    for path, module in model.named_modules():
        if not hasattr(module, "lora_A") or "default" not in module.lora_A or ".layers.0." not in path:
            continue
        name = path.removeprefix("base_model.model.")
        added = module.scaling["default"] * module.lora_B["default"].weight @ module.lora_A["default"].weight
        left = module.base_layer.weight + added - was[name + ".weight"]
        assert left.abs().max() < 1e-6, (name, left.abs().max())  # the weights lost what the adapter has
        tensors[f"{init}.{name}"] = added.detach().contiguous()
save_file(tensors, ROOT / "tests/golden/adapter_inits.safetensors")
print({k: tuple(v.shape) for k, v in tensors.items()})
