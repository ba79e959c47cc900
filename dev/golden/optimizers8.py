#!/usr/bin/env python3
"""Twenty steps of AdamW with 8-bit moments, by torchao in f32 on a CPU, and the 256 values of both code tables.

Run from the root of the repository. Needs torch, torchao. Writes tests/golden/optimizers8.json. First weights and gradients are the
functions of dev/golden/optimizers.py.
"""
import json
import os
import pathlib
import sys

os.environ["TORCHDYNAMO_DISABLE"] = "1"
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import torch  # noqa: E402
from torchao.optim import AdamW8bit  # noqa: E402
from torchao.optim.quant_utils import create_dynamic_map  # noqa: E402

from values import golden_values  # noqa: E402

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden" / "optimizers8.json"
ROWS, COLUMNS, STEPS = 4, 1024, 20
OPTIONS = {"beta1": 0.9, "beta2": 0.95, "epsilon": 1e-8, "weight-decay": 0.1}


def floats(x):
    return [float(v) for v in x.detach().flatten()]


def main():
    torch.set_num_threads(1)
    p = torch.nn.Parameter(golden_values("weight coded", ROWS * COLUMNS, 0.5).reshape(ROWS, COLUMNS).clone())
    optimizer = AdamW8bit([p], lr=0.01, betas=(OPTIONS["beta1"], OPTIONS["beta2"]), eps=OPTIONS["epsilon"],
                          weight_decay=OPTIONS["weight-decay"], block_size=2048)
    result = {"rows": ROWS, "columns": COLUMNS, "options": OPTIONS, "rate": 0.01,
              "signed": floats(torch.tensor(create_dynamic_map(True))),
              "unsigned": floats(torch.tensor(create_dynamic_map(False))), "steps": {}}
    for step in range(1, STEPS + 1):
        p.grad = golden_values(f"gradient coded {step}", ROWS * COLUMNS, 0.25).reshape(ROWS, COLUMNS).clone()
        optimizer.step()
        if step in (1, STEPS):
            state = optimizer.state[p]
            assert state["exp_avg"].block_size == 2048
            result["steps"][step] = {"weights": floats(p), "first": state["exp_avg"].codes.flatten().tolist(),
                                     "second": state["exp_avg_sq"].codes.flatten().tolist()}
    OUT.write_text(json.dumps(result, separators=(",", ":")) + "\n")


main()
