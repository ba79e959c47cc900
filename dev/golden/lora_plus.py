#!/usr/bin/env python3
"""Twenty steps of an adapter's A and B by PEFT's create_loraplus_optimizer over PyTorch's AdamW, in f32 on a CPU.

Run from the root of the repository. Needs torch and peft==0.21.2. Writes tests/golden/lora_plus.json; first weights and gradients
are functions of names and places, as in optimizers.py.
"""
import json
import pathlib

import torch
from peft.optimizers import create_loraplus_optimizer

from values import golden_values

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden" / "lora_plus.json"
SHAPES = {"a": (4, 12), "b": (5, 4)}
OPTIONS = {"beta1": 0.9, "beta2": 0.95, "epsilon": 1e-8, "weight-decay": 0.1}
RATE, RATIO, STEPS, SHOWN = 0.002, 16.0, 20, (1, 2, 11, 20)


def values(name, shape, spread):
    return golden_values(name, shape[0] * shape[1], spread).reshape(shape).clone()


class Adapter(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lora_A = torch.nn.Linear(12, 4, bias=False)
        self.lora_B = torch.nn.Linear(4, 5, bias=False)


def main():
    torch.set_num_threads(1)
    model = Adapter()
    parts = {"a": model.lora_A.weight, "b": model.lora_B.weight}
    for name, p in parts.items():
        p.data = values(f"weight {name}", SHAPES[name], 0.5)
    optimizer = create_loraplus_optimizer(
        model, torch.optim.AdamW, lr=RATE, loraplus_lr_ratio=RATIO, loraplus_weight_decay=OPTIONS["weight-decay"],
        betas=(OPTIONS["beta1"], OPTIONS["beta2"]), eps=OPTIONS["epsilon"], foreach=False)
    shown = {}
    for step in range(1, STEPS + 1):
        for name, p in parts.items():
            p.grad = values(f"gradient {name} {step}", SHAPES[name], 0.25)
        optimizer.step()
        if step in SHOWN:
            shown[step] = {name: [float(v) for v in p.detach().flatten()] for name, p in parts.items()}
    OUT.write_text(json.dumps({"shapes": SHAPES, "options": OPTIONS, "rate": RATE, "ratio": RATIO, "weights": shown},
                              separators=(",", ":")) + "\n")


main()
