#!/usr/bin/env python3
"""Trains a small model of make_case.py with PyTorch for some seconds and prints one JSON line: tokens/s of each step
after the warm-up, peak resident memory, the loss.

    peer.py CASE MODE DTYPE SECONDS [THREADS]     MODE: eager or compile; DTYPE: f32 or bf16 (autocast)

The strongest form we know: fused qkv and gate-up, scaled_dot_product_attention, fused AdamW, clipping at 1, gradients set to
none between steps. Experts: one stacked tensor each way, a loop over experts with index_add, as transformers does on a CPU. Needs
torch.
"""
import json
import resource
import sys
import time

import torch
import torch.nn.functional as F

sys.path.insert(0, __file__.rsplit("/", 1)[0])
from make_case import BATCH, CASES, EXPERTS, HEADS, HIDDEN, LAYERS, SEQ, WIDTH, tokens  # noqa: E402


class Mlp(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(WIDTH, 2 * HIDDEN, bias=False)
        self.down = torch.nn.Linear(HIDDEN, WIDTH, bias=False)

    def forward(self, x):
        gate, up = self.up(x).chunk(2, dim=-1)
        return self.down(F.silu(gate) * up)


class Mixture(torch.nn.Module):
    def __init__(self, experts, top_k):
        super().__init__()
        self.top_k, hidden = top_k, HIDDEN // top_k
        self.router = torch.nn.Linear(WIDTH, experts, bias=False)
        self.up = torch.nn.Parameter(torch.randn(experts, 2 * hidden, WIDTH) * 0.02)
        self.down = torch.nn.Parameter(torch.randn(experts, WIDTH, hidden) * 0.02)

    def forward(self, x):
        rows = x.flatten(0, 1)
        weights, chosen = self.router(rows).float().softmax(-1).topk(self.top_k)
        weights = (weights / weights.sum(-1, keepdim=True)).to(x.dtype)
        out = torch.zeros_like(rows)
        for e in range(self.up.shape[0]):
            token, place = (chosen == e).nonzero(as_tuple=True)
            gate, up = F.linear(rows[token], self.up[e]).chunk(2, dim=-1)
            result = F.linear(F.silu(gate) * up, self.down[e]) * weights[token, place, None]
            out = out.index_add(0, token, result.to(out.dtype))
        return out.view_as(x)


class Block(torch.nn.Module):
    def __init__(self, case):
        super().__init__()
        self.attention_norm, self.mlp_norm = torch.nn.RMSNorm(WIDTH, 1e-5), torch.nn.RMSNorm(WIDTH, 1e-5)
        self.qkv = torch.nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out = torch.nn.Linear(WIDTH, WIDTH, bias=False)
        self.mlp = Mixture(*EXPERTS[case]) if case in EXPERTS else Mlp()

    def forward(self, x, cos, sin):
        B, T, _ = x.shape
        q, k, v = self.qkv(self.attention_norm(x)).view(B, T, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        o = F.scaled_dot_product_attention(turn(q, cos, sin), turn(k, cos, sin), v, is_causal=True)
        x = x + self.out(o.transpose(1, 2).reshape(B, T, WIDTH))
        return x + self.mlp(self.mlp_norm(x))


def turn(x, cos, sin):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1).to(x.dtype)


class Model(torch.nn.Module):
    def __init__(self, case):
        super().__init__()
        vocab = CASES[case]
        self.embed = torch.nn.Embedding(vocab, WIDTH)
        self.blocks = torch.nn.ModuleList(Block(case) for _ in range(LAYERS))
        self.norm = torch.nn.RMSNorm(WIDTH, 1e-5)
        for p in self.parameters():
            if p.dim() >= 2:
                torch.nn.init.normal_(p, std=0.02)
        angles = torch.outer(torch.arange(SEQ), 10000.0 ** (-torch.arange(0, WIDTH // HEADS, 2) / (WIDTH // HEADS)))
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def forward(self, ids, targets):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x, self.cos, self.sin)
        return F.cross_entropy((self.norm(x) @ self.embed.weight.T).flatten(0, 1).float(), targets.flatten())


def adamw(model, fused):
    matrices = [p for p in model.parameters() if p.dim() >= 2]
    others = [p for p in model.parameters() if p.dim() < 2]
    return torch.optim.AdamW([{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}],
                             lr=3e-4, betas=(0.9, 0.95), fused=fused)


def train_step(step_model, model, optimizer, ids, targets, dtype):
    """The loss before the update. step_model: model, or its compiled form."""
    with torch.autocast("cpu", torch.bfloat16, enabled=dtype == "bf16"):
        loss = step_model(ids, targets)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss


def main(case, mode, dtype, seconds, threads=2):
    torch.set_num_threads(int(threads))
    torch.manual_seed(1)
    vocab = CASES[case]
    data = torch.tensor(tokens(vocab)[: 80 * (BATCH * SEQ) + 1], dtype=torch.int64)
    model = Model(case)
    step_model = torch.compile(model) if mode == "compile" else model
    optimizer = adamw(model, fused=True)
    rates, loss, begin, step = [], None, None, 0
    while begin is None or time.monotonic() - begin < float(seconds) or len(rates) < 2:
        at = step % 79 * BATCH * SEQ
        ids, targets = data[at : at + BATCH * SEQ].view(BATCH, SEQ), data[at + 1 : at + BATCH * SEQ + 1].view(BATCH, SEQ)
        start = time.monotonic()
        loss = train_step(step_model, model, optimizer, ids, targets, dtype)
        step += 1
        if step == 2:  # compiled, buffers there
            begin = time.monotonic()
        elif step > 2:
            rates.append(BATCH * SEQ / (time.monotonic() - start))
    print(json.dumps({"tokens_per_s": rates, "loss": loss.item(), "version": torch.__version__,
                      "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}))


if __name__ == "__main__":
    if len(sys.argv) not in (5, 6) or sys.argv[1] not in CASES:
        sys.exit(__doc__)
    main(*sys.argv[1:])
