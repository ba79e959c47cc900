#!/usr/bin/env python3
"""Training steps of plain PyTorch on one CUDA device, as a table that `tern plan calibrate` and `tern plan table` read.

    gpu_steps.py --output RUNS.csv [--seconds 300]

GPT-2's and Llama's blocks with f32 weights under bf16 autocast, each block compiled, causal flash attention, fused AdamW, gradients set
to none; `recompute` full: torch.utils.checkpoint around each block. A row is the median of 6 steps after 3, and the greatest memory the
allocator had in use and had reserved. Rows that do not fit or come after --seconds are left out and said. Every third row is `fit`, the
others `score`. Needs PyTorch with CUDA.
"""
import argparse
import csv
import statistics
import time

import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

# width, hidden, layers, heads, key/value heads, vocabulary, gated: spec/presets.cpp's rows of these names.
MODELS = {
    "gpt2": (768, 3072, 12, 12, 12, 50257, False),
    "gpt2-medium": (1024, 4096, 24, 16, 16, 50257, False),
    "gpt2-large": (1280, 5120, 36, 20, 20, 50257, False),
    "gpt2-xl": (1600, 6400, 48, 25, 25, 50257, False),
    "qwen-2.5-0.5b": (896, 4864, 24, 14, 2, 151936, True),
    "llama-3.2-1b": (2048, 8192, 16, 32, 8, 128256, True),
    "llama-3.2-3b": (3072, 8192, 28, 24, 8, 128256, True),
}
RUNS = [  # model, micro-batch, tokens, recompute
    ("gpt2", 32, 1024, "none"), ("gpt2", 8, 1024, "none"), ("gpt2", 64, 1024, "full"), ("gpt2-medium", 16, 1024, "none"),
    ("gpt2-large", 8, 1024, "none"), ("gpt2-xl", 4, 1024, "none"), ("gpt2-xl", 16, 1024, "full"), ("llama-3.2-1b", 4, 2048, "none"),
    ("llama-3.2-1b", 1, 8192, "none"), ("llama-3.2-1b", 2, 8192, "full"), ("llama-3.2-3b", 1, 4096, "full"), ("llama-3.2-3b", 4, 2048, "full"),
    ("qwen-2.5-0.5b", 4, 2048, "none"), ("qwen-2.5-0.5b", 2, 8192, "full"), ("gpt2-medium", 4, 1024, "none"), ("gpt2-large", 16, 1024, "full"),
]


class Block(torch.nn.Module):
    def __init__(self, width, hidden, heads, kv, gated, bias):
        super().__init__()
        self.heads, self.kv, self.head, self.gated = heads, kv, width // heads, gated
        norm = (lambda: torch.nn.RMSNorm(width, 1e-5)) if gated else (lambda: torch.nn.LayerNorm(width))
        self.norm1, self.norm2 = norm(), norm()
        self.qkv = torch.nn.Linear(width, (heads + 2 * kv) * self.head, bias=bias)
        self.out = torch.nn.Linear(width, width, bias=not gated)
        self.up = torch.nn.Linear(width, hidden * (2 if gated else 1), bias=not gated)
        self.down = torch.nn.Linear(hidden, width, bias=not gated)

    def forward(self, x, cos, sin):
        b, n, w = x.shape
        q, k, v = self.qkv(self.norm1(x)).split([self.heads * self.head, self.kv * self.head, self.kv * self.head], dim=-1)
        q, k, v = (t.view(b, n, -1, self.head).transpose(1, 2) for t in (q, k, v))
        if self.gated:
            turn = lambda t: t * cos + torch.cat((-t[..., self.head // 2:], t[..., : self.head // 2]), -1) * sin  # noqa: E731
            q, k = turn(q).to(v.dtype), turn(k).to(v.dtype)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self.kv != self.heads)
        x = x + self.out(y.transpose(1, 2).reshape(b, n, w))
        h = self.up(self.norm2(x))
        if self.gated:
            gate, h = h.chunk(2, dim=-1)
            h = F.silu(gate) * h
        else:
            h = F.gelu(h, approximate="tanh")
        return x + self.down(h)


class Model(torch.nn.Module):
    def __init__(self, name, tokens, recompute):
        super().__init__()
        width, hidden, layers, heads, kv, vocabulary, gated = MODELS[name]
        self.table = torch.nn.Embedding(vocabulary, width)
        self.places = None if gated else torch.nn.Embedding(tokens, width)
        bias = not gated or name.startswith("qwen")
        self.blocks = torch.nn.ModuleList(Block(width, hidden, heads, kv, gated, bias) for _ in range(layers))
        self.norm = torch.nn.RMSNorm(width, 1e-5) if gated else torch.nn.LayerNorm(width)
        self.recompute = recompute
        head = width // heads
        angle = torch.arange(tokens)[:, None] / 10000.0 ** (torch.arange(0, head, 2) / head)[None, :]
        self.register_buffer("cos", torch.cat((angle.cos(), angle.cos()), -1))
        self.register_buffer("sin", torch.cat((angle.sin(), angle.sin()), -1))
        for p in self.parameters():
            if p.dim() == 2:
                torch.nn.init.normal_(p, std=0.02)

    def loss(self, x, target):
        return F.cross_entropy(F.linear(self.norm(x), self.table.weight).float().flatten(0, 1), target.flatten())

    def forward(self, ids):
        x = self.table(ids[:, :-1])
        if self.places is not None:
            x = x + self.places.weight
        x = x.to(torch.bfloat16)
        for block in self.blocks:
            x = checkpoint(block, x, self.cos, self.sin, use_reentrant=False) if self.recompute == "full" else block(x, self.cos, self.sin)
        return self.loss(x, ids[:, 1:])


def measure(name, batch, tokens, recompute):
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    torch._dynamo.reset()
    with torch.device("cuda"):
        model = Model(name, tokens, recompute)
    for block in model.blocks:
        block.compile()
    model.loss = torch.compile(model.loss)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    times = []
    for step in range(9):
        ids = torch.randint(MODELS[name][5], (batch, tokens + 1), device="cuda")
        torch.cuda.synchronize()
        start = time.perf_counter()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(ids)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        if step >= 3:
            times.append(time.perf_counter() - start)
    count = sum(p.numel() for p in model.parameters())
    return statistics.median(times), torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved(), count


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", required=True)
    parser.add_argument("--seconds", type=float, default=300)
    a = parser.parse_args()
    start, rows = time.monotonic(), 0
    with open(a.output, "w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["model", "# GPUs", "global batch", "micro batch", "sequence length", "tensor parallelism", "context parallelism", "pipeline parallelism",
                      "virtual stages", "zero", "recompute", "dtype", "products", "iteration time (ms)", "use", "source"])
        for name, batch, tokens, recompute in RUNS:
            if time.monotonic() - start > a.seconds:
                print(f"left out for want of time: {name} {batch} x {tokens} {recompute}")
                continue
            try:
                seconds, allocated, reserved, count = measure(name, batch, tokens, recompute)
            except torch.OutOfMemoryError:
                print(f"does not fit: {name} {batch} x {tokens} {recompute}")
                continue
            rows += 1
            out.writerow([name, 1, batch, batch, tokens, 1, 1, 1, 1, 0, recompute, "bf16", "16-bit", f"{seconds * 1e3:.2f}", "fit" if rows % 3 == 1 else "score",
                          f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}"])
            file.flush()
            print(f"{name:14} {batch:3} x {tokens:5} {recompute:5} {count / 1e6:8.1f} M  {seconds * 1e3:8.1f} ms  {batch * tokens / seconds:9.0f} tokens/s  "
                  f"{6 * count * batch * tokens / seconds / 1e12:6.1f} TFLOP/s (6N)  {allocated / 2**30:6.2f} GiB in use, {reserved / 2**30:6.2f} reserved", flush=True)


if __name__ == "__main__":
    main()
