#!/usr/bin/env python3
"""What PEFT 0.21's add_weighted_adapter makes of three small adapters, and OPCM's formulas on their full matrices.

Run from the root of the repository with a Python that has torch, transformers and peft==0.21.2: `python
dev/golden/combined.py`. Writes tests/golden/combined/: one, two and three (PEFT's two files each), and expected.safetensors:
METHOD/MODULE/A and /B as PEFT has them, or METHOD/MODULE/BA where the factors have signs of their own. `two` lacks a module of
`one`; `three` has another rank. Nothing here runs at build or test time.
"""
import json
import pathlib

import numpy as np
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM

ROOT = pathlib.Path(__file__).resolve().parents[2]
BASE = ROOT / "tests" / "golden" / "models" / "llama"
OUT = ROOT / "tests" / "golden" / "combined"
torch.set_num_threads(1)
ADAPTERS = {
    "one": dict(r=3, lora_alpha=6, target_modules=["layers.0.self_attn.q_proj", "layers.1.mlp.down_proj"]),
    "two": dict(r=3, lora_alpha=2, target_modules=["layers.1.mlp.down_proj"]),
    "three": dict(r=4, lora_alpha=5, use_rslora=True, target_modules=["layers.0.self_attn.q_proj", "layers.1.mlp.down_proj"]),
}


def make(name, settings):
    torch.manual_seed(len(name))
    model = AutoModelForCausalLM.from_pretrained(BASE, dtype=torch.float32)
    model = get_peft_model(model, LoraConfig(task_type="CAUSAL_LM", init_lora_weights=False, **settings))
    with torch.no_grad():
        for key, part in model.named_parameters():
            if "lora_" in key:
                part.normal_(0, 0.2)
    model.save_pretrained(OUT / name)
    (OUT / name / "README.md").unlink(missing_ok=True)
    config = json.loads((OUT / name / "adapter_config.json").read_text())
    config["base_model_name_or_path"] = "llama"
    (OUT / name / "adapter_config.json").write_text(json.dumps(config, indent=2) + "\n")


def combined(model, names, weights, method, **more):
    model.add_weighted_adapter(names, weights, "new", combination_type=method, **more)
    parts = {}
    for path, module in model.named_modules():
        if hasattr(module, "lora_A") and "new" in module.lora_A:
            a, b = module.lora_A["new"].weight.detach(), module.lora_B["new"].weight.detach()
            assert module.scaling["new"] == 1 or model.peft_config["new"].use_rslora
            parts[path.removeprefix("base_model.model.")] = (a.clone(), b.clone())
    model.delete_adapter("new")
    return parts


def opcm(deltas):
    """Tang et al. 2025, on full matrices: the leading directions have half of the sum of singular values."""
    merged = {path: d.copy() for path, d in deltas[0].items()}
    norm = lambda m: np.sqrt(sum((x**2).sum() for x in m.values()))
    norms, scale = [norm(deltas[0])], 1.0
    for new in deltas[1:]:
        norms.append(norm(new))
        for path in merged:
            u, s, vt = np.linalg.svd(merged[path], full_matrices=True)
            p = u.T @ new.get(path, np.zeros_like(merged[path])) @ vt.T
            lead = int(np.argmax(np.cumsum(s) / s.sum() > 0.5))
            for i in range(int((s > s[0] * max(u.shape[0], vt.shape[0]) * 2.0**-52).sum())):
                p[i, i] = 0
            p[:lead, :lead] = 0
            merged[path] = scale * merged[path] + u @ p @ vt
        whole, mean = norm(merged), float(np.mean(norms))
        merged = {path: x * (mean / whole) for path, x in merged.items()}
        scale = whole / mean
    return merged


def main():
    for name, settings in ADAPTERS.items():
        make(name, settings)
    base = AutoModelForCausalLM.from_pretrained(BASE, dtype=torch.float32)
    model = PeftModel.from_pretrained(base, OUT / "one", adapter_name="one")
    model.load_adapter(OUT / "two", "two")
    model.load_adapter(OUT / "three", "three")
    model = model.base_model
    out = {}
    for method, more in [("linear", {}), ("cat", {}), ("ties", dict(density=0.4)), ("magnitude_prune", dict(density=0.55))]:
        for path, (a, b) in combined(model, ["one", "two"], [0.7, -1.5], method, **more).items():
            out[f"{method}/{path}/A"], out[f"{method}/{path}/B"] = a, b
    for path, (a, b) in combined(model, ["one", "two"], [0.7, 1.5], "ties", density=0.6, majority_sign_method="frequency").items():
        out[f"ties_frequency/{path}/A"], out[f"ties_frequency/{path}/B"] = a, b
    three = ["one", "two", "three"]
    for method, more in [("svd", dict(svd_rank=5)), ("ties_svd", dict(svd_rank=2, density=0.3)), ("magnitude_prune_svd", dict(density=0.5))]:
        for path, (a, b) in combined(model, three, [0.7, 1.5, 0.4], method, **more).items():
            out[f"{method}/{path}/BA"] = (b.double() @ a.double()).float()
    deltas = []
    for name in three:
        deltas.append({})
        for path, module in model.named_modules():
            if hasattr(module, "lora_A") and name in module.lora_A:
                a, b = (part[name].weight.detach().double().numpy() for part in (module.lora_A, module.lora_B))
                deltas[-1][path] = module.scaling[name] * b @ a
    for path, delta in opcm(deltas).items():
        out[f"opcm/{path.removeprefix('base_model.model.')}/BA"] = torch.tensor(delta)
    out = {k.replace("/base_model.model.", "/"): v.contiguous() for k, v in out.items()}
    for key in list(out):
        method, path, part = key.split("/")
        clean = path[path.index("model.layers"):]
        out[f"{method}/{clean}/{part}"] = out.pop(key)
    save_file(out, OUT / "expected.safetensors")
    print(len(out), "tensors", sorted({k.split('/')[0] for k in out}))


if __name__ == "__main__":
    main()
