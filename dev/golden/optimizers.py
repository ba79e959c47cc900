#!/usr/bin/env python3
"""Twenty steps of update rules, by PyTorch, timm, schedulefree, pytorch-optimizer and galore-torch in f32 on a CPU.

Run from the root of the repository. Needs torch, timm, schedulefree, pytorch-optimizer, galore-torch. Writes tests/golden/optimizers.json: of each
rule its options (the names of `tern train`), the rate, and the weights after some steps. First weights and gradients are functions of
names and places (model/golden_weights_testing.h has the same ones), so the file holds none of them. Matrices decay; the vector does not.
"""
import json
import pathlib

import numpy as np
import torch

from values import golden_values

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden" / "optimizers.json"
SHAPES = {"wide": (5, 12), "tall": (12, 5), "vector": (7,)}
# Rules that look at directions: a matrix without a longer side too.
SHAPES_OF = {"soap": SHAPES | {"square": (9, 9)}, "galore-adamw": SHAPES | {"square": (9, 9)}}
STEPS, SHOWN = 20, (1, 2, 11, 20)


def first(name, shape):
    return golden_values(f"weight {name}", int(np.prod(shape)), 0.5).reshape(shape).clone()


def gradient(name, step, shape):
    return golden_values(f"gradient {name} {step}", int(np.prod(shape)), 0.25).reshape(shape).clone()


def groups(p, decay):
    """The matrices with their decay, then the vector without."""
    return [{"params": [x for name, x in p.items() if name != "vector"], "weight_decay": decay},
            {"params": [p["vector"]], "weight_decay": 0.0}]


def adamw(p, o, lr):
    return [torch.optim.AdamW(groups(p, o["weight-decay"]), lr=lr, betas=(o["beta1"], o["beta2"]), eps=o["epsilon"],
                              foreach=False)]


def sgd(p, o, lr):
    return [torch.optim.SGD(groups(p, o["weight-decay"]), lr=lr, momentum=o["momentum"], foreach=False)]


def lars(p, o, lr):
    from timm.optim import Lars
    return [Lars(groups(p, o["weight-decay"]), lr=lr, momentum=o["momentum"], trust_coeff=o["trust"], eps=o["epsilon"])]


def lamb(p, o, lr):
    from timm.optim import Lamb
    return [Lamb(groups(p, o["weight-decay"]), lr=lr, betas=(o["beta1"], o["beta2"]), eps=o["epsilon"], max_grad_norm=None)]


def lion(p, o, lr):
    from timm.optim import Lion
    return [Lion(groups(p, o["weight-decay"]), lr=lr, betas=(o["beta1"], o["beta2"]), foreach=False)]


def schedule_free(p, o, lr):
    from schedulefree import AdamWScheduleFree
    optimizer = AdamWScheduleFree(groups(p, o["weight-decay"]), lr=lr, betas=(o["beta1"], o["beta2"]), eps=o["epsilon"],
                                  warmup_steps=4, foreach=False)
    optimizer.train()
    return [optimizer]


def adafactor(p, o, lr):
    return [torch.optim.Adafactor(groups(p, o["weight-decay"]), lr=lr, foreach=False)]


def muon(p, o, lr):
    # PyTorch multiplies in bf16 there; the reference here is the same function in f32.
    import inspect
    import torch.optim._muon as module
    source = inspect.getsource(module._zeropower_via_newtonschulz)
    assert source.count("torch.bfloat16") == 1
    exec(source.replace("torch.bfloat16", "torch.float32"), module.__dict__)
    return [torch.optim.Muon([p["wide"], p["tall"]], lr=lr, weight_decay=o["weight-decay"], momentum=o["momentum"],
                             adjust_lr_fn="match_rms_adamw"),
            torch.optim.AdamW([p["vector"]], lr=lr, betas=(o["beta1"], o["beta2"]), eps=o["epsilon"], weight_decay=0.0,
                              foreach=False)]


def soap(p, o, lr):
    # A side longer than the limit is left as it is: where both sides of an oblong matrix were turned, the longer one's first basis would be
    # eigh's choice among the vectors of value 0.
    from pytorch_optimizer import SOAP
    return [SOAP(groups(p, o["weight-decay"]), lr=lr, betas=(o["beta1"], o["beta2"]), eps=o["epsilon"],
                 precondition_frequency=int(o["basis-every"]), max_precondition_dim=int(o["basis-limit"]))]


def galore_adamw(p, o, lr):
    # Which way LAPACK's singular vectors point is nobody's business but the moments' when the basis changes: here the largest number of each is
    # positive.
    import importlib.util
    import sys
    import types
    package = types.ModuleType("galore_torch")  # without its __init__, which imports bitsandbytes
    package.__path__ = importlib.util.find_spec("galore_torch").submodule_search_locations
    sys.modules["galore_torch"] = package
    from galore_torch.adamw import AdamW
    from galore_torch.galore_projector import GaLoreProjector
    plain = GaLoreProjector.get_orthogonal_matrix

    def with_signs(self, weights, rank, type):
        basis = plain(self, weights, rank, type)
        rows = basis if type == "right" else basis.T
        rows = rows * torch.stack([torch.sign(row[row.abs().argmax()]) for row in rows])[:, None]
        return rows if type == "right" else rows.T

    GaLoreProjector.get_orthogonal_matrix = with_signs
    low, plain_group = groups(p, o["weight-decay"])
    low |= {"rank": int(o["projection-rank"]), "update_proj_gap": int(o["basis-every"]), "scale": o["projection-scale"],
            "proj_type": "std"}
    return [AdamW([low, plain_group], lr=lr, betas=(o["beta1"], o["beta2"]), eps=o["epsilon"],
                  no_deprecation_warning=True)]


RULES = {
    "adamw": (adamw, dict(beta1=0.9, beta2=0.95) | {"epsilon": 1e-8, "weight-decay": 0.1}, 0.01),
    "sgd": (sgd, {"momentum": 0.9, "weight-decay": 0.1}, 0.01),
    "lars": (lars, {"momentum": 0.9, "trust": 0.02, "epsilon": 1e-8, "weight-decay": 0.1}, 0.5),
    "lamb": (lamb, {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-6, "weight-decay": 0.05}, 0.02),
    "lion": (lion, {"beta1": 0.9, "beta2": 0.99, "weight-decay": 0.1}, 0.01),
    "schedule-free": (schedule_free, {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8, "weight-decay": 0.1}, 0.01),
    "adafactor": (adafactor, {"weight-decay": 0.1}, 0.05),
    "muon": (muon, {"momentum": 0.95, "beta1": 0.9, "beta2": 0.95, "epsilon": 1e-8, "weight-decay": 0.1}, 0.01),
    "soap": (soap, {"beta1": 0.95, "beta2": 0.9, "epsilon": 1e-8, "weight-decay": 0.1, "basis-every": 3, "basis-limit": 9},
             0.01),
    "galore-adamw": (galore_adamw, {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-11, "weight-decay": 0.1, "basis-every": 7,
                                    "projection-rank": 3, "projection-scale": 0.25}, 0.02),
}


def run(rule):
    make, options, lr = RULES[rule]
    shapes = SHAPES_OF.get(rule, SHAPES)
    p = {name: torch.nn.Parameter(first(name, shape)) for name, shape in shapes.items()}
    optimizers, shown = make(p, options, lr), {}
    for step in range(1, STEPS + 1):
        for name, x in p.items():
            x.grad = gradient(name, step, shapes[name])
        for o in optimizers:
            o.step()
        if step in SHOWN:
            shown[step] = {name: [float(v) for v in x.detach().flatten()] for name, x in p.items()}
            if rule == "schedule-free":  # also the average, at which it is evaluated
                optimizers[0].eval()
                shown[step] |= {f"{name} average": [float(v) for v in x.detach().flatten()] for name, x in p.items()}
                optimizers[0].train()
                # going there and back rounds: the run itself must not see it
                for name, x in p.items():
                    x.data = torch.tensor(shown[step][name], dtype=torch.float32).reshape(shapes[name])
    return {"options": options, "rate": lr, "warmup": 4 if rule == "schedule-free" else 0, "shapes": shapes,
            "weights": shown}


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    rules = {rule: run(rule) for rule in RULES}
    OUT.write_text(json.dumps({"rules": rules}, separators=(",", ":")) + "\n")


main()
