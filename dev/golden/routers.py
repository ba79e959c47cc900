#!/usr/bin/env python3
"""What routers of mixtures choose among logits of which many are equal, by transformers + torch on a CPU.

Run from the root of the repository with the oracle's Python. Writes tests/golden/routers.json: of each router its numbers and
some rows of logits (small whole numbers, as digits), the experts chosen, ascending, and their weights. The router's matrix is the
identity, so that its input is its logits.
"""
import json
import pathlib

import torch
import transformers as T

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden" / "routers.json"
ROWS = 10


def mixtral(experts, top_k):
    from transformers.models.mixtral.modeling_mixtral import MixtralTopKRouter
    return MixtralTopKRouter(T.MixtralConfig(hidden_size=experts, num_local_experts=experts, num_experts_per_tok=top_k))


def qwen(experts, top_k, normalized):
    from transformers.models.qwen3_moe.modeling_qwen3_moe import Qwen3MoeTopKRouter
    return Qwen3MoeTopKRouter(T.Qwen3MoeConfig(hidden_size=experts, num_experts=experts, num_experts_per_tok=top_k,
                                               norm_topk_prob=normalized))


def deepseek(version, experts, top_k, groups, top_groups, **more):
    from transformers.models.deepseek_v2.modeling_deepseek_v2 import DeepseekV2TopkRouter
    from transformers.models.deepseek_v3.modeling_deepseek_v3 import DeepseekV3TopkRouter
    config, router = ((T.DeepseekV2Config, DeepseekV2TopkRouter), (T.DeepseekV3Config, DeepseekV3TopkRouter))[version - 2]
    return router(config(hidden_size=experts, num_attention_heads=2, n_routed_experts=experts, num_experts_per_tok=top_k,
                         n_group=groups, topk_group=top_groups, **more))


CASES = {
    "mixtral": (lambda: mixtral(8, 2), dict(experts=8, top_k=2, normalized=True)),
    "one of a few": (lambda: mixtral(6, 1), dict(experts=6, top_k=1, normalized=True)),
    "qwen": (lambda: qwen(60, 4, False), dict(experts=60, top_k=4, normalized=False)),
    "qwen3": (lambda: qwen(128, 8, True), dict(experts=128, top_k=8, normalized=True)),
    "deepseek 2, greedy": (lambda: deepseek(2, 20, 6, None, None, routed_scaling_factor=2.0),
                           dict(experts=20, top_k=6, normalized=False, scaling=2.0)),
    "deepseek 2, groups": (lambda: deepseek(2, 24, 5, 6, 2, topk_method="group_limited_greedy"),
                           dict(experts=24, top_k=5, normalized=False, groups=6, top_groups=2)),
    "deepseek 3": (lambda: deepseek(3, 64, 8, 8, 4),
                   dict(experts=64, top_k=8, normalized=True, scaling=2.5, sigmoid=True, groups=8, top_groups=4)),
    "deepseek 3, one group": (lambda: deepseek(3, 10, 3, 1, 1, norm_topk_prob=False, routed_scaling_factor=1.0),
                              dict(experts=10, top_k=3, normalized=False, sigmoid=True)),
    "few of many": (lambda: qwen(192, 3, True), dict(experts=192, top_k=3, normalized=True)),
    # Biases from -2 to 2: experts of open groups fall below 0, and must still come before those of closed ones.
    "deepseek 3, far biases": (lambda: deepseek(3, 32, 7, 8, 2),
                               dict(experts=32, top_k=7, normalized=True, scaling=2.5, sigmoid=True, groups=8, top_groups=2)),
}
FAR = {"deepseek 3, far biases"}


def main():
    torch.manual_seed(1)
    torch.set_num_threads(1)
    golden = []
    for name, (make, numbers) in CASES.items():
        router, experts = make(), numbers["experts"]
        rows = torch.stack([torch.randint(0, 2 + i, (experts,)) for i in range(ROWS)])
        rows[0] = 0
        with torch.no_grad():
            router.weight.copy_(torch.eye(experts))
            low, high = (-16, 17) if name in FAR else (0, 3)
            bias = torch.randint(low, high, (experts,)) / 8.0 if numbers.get("sigmoid") else torch.zeros(0)
            if numbers.get("sigmoid"):
                router.e_score_correction_bias.copy_(bias)
            _, weights, chosen = router(rows.float())
        order = chosen.argsort(dim=-1)
        golden.append({"name": name, **numbers, "bias": bias.tolist(),
                       "logits": ["".join(str(x) if x < 10 else chr(87 + x) for x in row) for row in rows.tolist()],
                       "chosen": chosen.gather(1, order).tolist(),
                       "weights": [[float(f"{x:.8g}") for x in row] for row in weights.gather(1, order).tolist()]})
    OUT.write_text(json.dumps(golden) + "\n")
    print(OUT, OUT.stat().st_size, "bytes; torch", torch.__version__, "transformers", T.__version__)


if __name__ == "__main__":
    main()
