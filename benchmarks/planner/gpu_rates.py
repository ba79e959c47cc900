#!/usr/bin/env python3
"""What one CUDA device reaches through PyTorch, as a cluster file of measured rates that `tern plan --hardware` reads.

    gpu_rates.py --output RATES.toml [--seconds 240] [--json ALL.json]

Products over a grid of shapes (bf16, f16, f32), causal attention by the size of heads, elementwise work, the fused AdamW step, the
gap between kernels, what the context takes, copies to and from pinned memory alone and at once, and a product while a copy runs.
Random data; medians of device events after a warm-up; operands change from run to run so that no cache holds them. A rate above
the data sheet's peak is written as the peak. Needs PyTorch with CUDA.
"""
import argparse
import itertools
import json
import statistics
import time

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend

# What data sheets state of the cards we met: dense peaks in FLOP/s, memory in bytes/s.
SHEETS = {
    "H100": {"bf16": 989e12, "f16": 989e12, "f32": 67e12, "memory": 3.35e12, "link": 64e9},
    "H200": {"bf16": 989e12, "f16": 989e12, "f32": 67e12, "memory": 4.8e12, "link": 64e9},
}
DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}
WIDTHS = [512, 1024, 2048, 4096, 8192, 16384]
GRIDS = {"bf16": ([128, 512, 2048, 8192, 32768], WIDTHS, WIDTHS), "f16": ([128, 512, 2048, 8192, 32768], WIDTHS, WIDTHS),
         "f32": ([128, 512, 2048, 8192], WIDTHS[:5], WIDTHS[:5])}  # rows, columns, depths


def timed(work, repeat=9, warm=3):
    """Seconds: the median of `repeat` runs by device events."""
    for i in range(warm):
        work(i)
    times = []
    for i in range(repeat):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        work(i)
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) / 1e3)
    return statistics.median(times)


def product_seconds(dtype, m, n, k):
    """x[m, k] · w[k, n] several times behind each other, so that no gap between kernels counts; operands in turn."""
    size = (m * k + k * n) * dtype.itemsize
    sets = max(1, min(4, int(2e8 // max(size, 1)) + 1))
    x = [torch.randn(m, k, device="cuda", dtype=dtype) for _ in range(sets)]
    w = [torch.randn(n, k, device="cuda", dtype=dtype) for _ in range(sets)]
    inner = max(1, min(32, int(2e12 // (2 * m * n * k)) + 1))

    def work(i):
        for j in range(inner):
            F.linear(x[(i + j) % sets], w[(i + j) % sets])

    return timed(work, repeat=5, warm=2) / inner


def products(name, peak, deadline):
    """The grid's shares of the peak; a larger product is never written as faster than a smaller one."""
    seconds = {}
    rows, columns, depths = GRIDS[name]
    for m, n, k in itertools.product(rows, columns, depths):
        if time.monotonic() > deadline:
            raise SystemExit(f"gpu_rates: {name} products ran out of time; give more --seconds")
        seconds[m, n, k] = max(product_seconds(DTYPES[name], m, n, k), 2.0 * m * n * k / peak)
    for (a, m), (b, n), (c, k) in itertools.product(enumerate(rows), enumerate(columns), enumerate(depths)):
        smaller = [seconds[key] for key in (a and (rows[a - 1], n, k), b and (m, columns[b - 1], k), c and (m, n, depths[c - 1])) if key]
        seconds[m, n, k] = max([seconds[m, n, k], *(s * (1 + 1e-6) for s in smaller)])  # more than the rounding of a share
    return {key: 2.0 * key[0] * key[1] * key[2] / (peak * s) for key, s in seconds.items()}


def attention(backend, dtype, head, n):
    """FLOP/s forward and backward of causal attention: 2 · 2 · head · n(n+1)/2 a head and sequence forward, 2.5 times that backward."""
    heads, batch = 2048 // head, max(1, 32768 // n)
    q, k, v = (torch.randn(batch, heads, n, head, device="cuda", dtype=dtype, requires_grad=True) for _ in range(3))
    flops = 4.0 * head * n * (n + 1) / 2 * heads * batch
    with torch.nn.attention.sdpa_kernel(backend):
        forward = timed(lambda i: F.scaled_dot_product_attention(q, k, v, is_causal=True), repeat=5)
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        dy = torch.randn_like(out)
        backward = timed(lambda i: torch.autograd.grad(out, (q, k, v), dy, retain_graph=True), repeat=5)
    return flops / forward, 2.5 * flops / backward


def elementwise():
    """bytes/s of a fused RMS norm and of a gated activation, rows that no cache holds."""
    rows, width = 32768, 4096
    x, g = torch.randn(rows, width, device="cuda", dtype=torch.bfloat16), torch.randn(width, device="cuda", dtype=torch.bfloat16)
    y = torch.randn_like(x)
    norm = torch.compile(lambda x: F.rms_norm(x, (width,), g))
    gate = torch.compile(lambda x, y: F.silu(x) * y)
    return {"norm": 2 * x.nbytes / timed(lambda i: norm(x)), "gate": 3 * x.nbytes / timed(lambda i: gate(x, y))}


def update():
    """bytes/s of fused AdamW over 400 million f32 weights: weight, gradient and two states read, weight and states written."""
    weights = [torch.randn(20_000_000, device="cuda", requires_grad=True) for _ in range(20)]
    for w in weights:
        w.grad = torch.randn_like(w)
    optimizer = torch.optim.AdamW(weights, fused=True)
    seconds = timed(lambda i: optimizer.step(), repeat=5)
    return sum(w.nbytes for w in weights) * 7 / seconds, sum(w.nbytes for w in weights) * (2 * 2 + 1 + 1) / seconds


def launches():
    """Seconds a small kernel takes in a row of them: replayed from a graph (the device's own gap), and issued one by one (the host's)."""
    x = torch.zeros(256, device="cuda")
    count = 1000

    def row(i):
        for _ in range(count):
            x.add_(1)

    issued = timed(row, repeat=5) / count
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    with torch.cuda.stream(stream):
        row(0)
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        row(0)
    return timed(lambda i: graph.replay(), repeat=5) / count, issued


def copies():
    """bytes/s over the host link, each way alone and both at once; seconds a copy of 4 bytes takes; a product's slowdown beside a copy."""
    size = 1 << 30
    host, host2 = torch.empty(size, dtype=torch.uint8, pin_memory=True), torch.empty(size, dtype=torch.uint8, pin_memory=True)
    device, device2 = torch.empty(size, dtype=torch.uint8, device="cuda"), torch.empty(size, dtype=torch.uint8, device="cuda")
    up = size / timed(lambda i: device.copy_(host, non_blocking=True), repeat=5)
    down = size / timed(lambda i: host.copy_(device, non_blocking=True), repeat=5)
    side = torch.cuda.Stream()

    def both(i):
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            host2.copy_(device2, non_blocking=True)
        device.copy_(host, non_blocking=True)
        torch.cuda.current_stream().wait_stream(side)

    at_once = size / timed(both, repeat=5)
    little, little_host = torch.zeros(1, device="cuda"), torch.zeros(1, pin_memory=True)
    latency = timed(lambda i: [little.copy_(little_host, non_blocking=True) for _ in range(200)], repeat=5) / 200
    within = torch.empty_like(device)
    inside = 2 * size / timed(lambda i: within.copy_(device), repeat=7)
    x, w = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    alone = timed(lambda i: [torch.mm(x, w) for _ in range(10)], repeat=5)

    def beside(i):
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            device.copy_(host, non_blocking=True)
            host2.copy_(device2, non_blocking=True)
        for _ in range(10):
            torch.mm(x, w)

    slowed = []
    for _ in range(5):
        torch.cuda.synchronize()
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        beside(0)
        end.record()
        torch.cuda.synchronize()
        slowed.append(begin.elapsed_time(end) / 1e3)
    return {"to_device": up, "to_host": down, "each_way_at_once": at_once, "latency": latency, "inside": inside,
            "product_beside_copies": statistics.median(slowed) / alone}


def toml(name, sheet, total, m):
    """The cluster file: keys of docs/cluster-files.md."""
    lines = [f"# One {name}, measured through PyTorch {torch.__version__} by benchmarks/planner/gpu_rates.py; no other device or network was there.",
             "version = 1", f'name = "one {name}"', "", "[device.gpu]", f'memory = "{total}B"', f'reserved = "{m["context_bytes"]}B"  # the context',
             f'memory_bandwidth = "{sheet["memory"] / 1e12}TB/s"  # data sheet', f'memory_share = {m["copies"]["inside"] / sheet["memory"]:.3f}',
             f'launch = "{m["launch_s"] * 1e9:.0f}ns"  # from a graph; issued by the host: {m["issue_s"] * 1e6:.1f} us', "",
             "[device.gpu.peak]  # data sheet, dense", *(f'{t} = "{sheet[t] / 1e12:.0f}TFLOP/s"' for t in m["products"]), "",
             "[device.gpu.attention]", f'forward = {m["attention"]["128"]["forward"]:.3f}', f'backward = {m["attention"]["128"]["backward"]:.3f}', "",
             "[device.gpu.attention.bf16]", "heads = ["]
    for head, a in m["attention"].items():
        lines.append(f'  {{ head = {head}, forward = {a["forward"]:.3f}, forward_half = {a["forward_half"]:.0f}, backward = {a["backward"]:.3f}, '
                     f'backward_half = {a["backward_half"]:.0f} }},')
    lines += ["]", "", "[device.gpu.elementwise]", f'bf16 = "{min(m["elementwise"].values()) / 1e9:.0f}GB/s"', "", "[device.gpu.update]",
              f'bf16 = "{m["update_counted"] / 1e9:.0f}GB/s"', f'f32 = "{m["update_counted"] / 1e9:.0f}GB/s"']
    for t, grid in m["products"].items():
        rows, columns, depths = GRIDS[t]
        lines += ["", "[[device.gpu.matmul]]", f'dtype = "{t}"', "tile = [1, 1, 1]", f"rows = {rows}", f"columns = {columns}", f"depth = {depths}",
                  "share = [" + ", ".join(f"{grid[key]:.9f}" for key in itertools.product(*GRIDS[t])) + "]"]
    link = min(m["copies"]["to_device"], m["copies"]["to_host"])
    lines += ["", "[node.box]", 'device = "gpu"', "devices = 1", 'host_memory = "128GiB"', 'host_reserved = "8GiB"', 'host_bandwidth = "100GB/s"  # not measured',
              f'host_link = {{ bandwidth = "{sheet["link"] / 1e9:.0f}GB/s", share = {link / sheet["link"]:.3f}, latency = "{m["copies"]["latency"] * 1e9:.0f}ns" }}',
              'link = { name = "none", bandwidth = "32GB/s", share = 0.5, latency = "20us" }  # not measured: one device',
              'network = { bandwidth = "1.25GB/s", share = 0.9 }  # not measured: one node', "", "[[nodes]]", 'node = "box"', "count = 1", ""]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", required=True)
    parser.add_argument("--json")
    parser.add_argument("--seconds", type=float, default=240)
    a = parser.parse_args()
    deadline = time.monotonic() + a.seconds
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.zeros(1, device="cuda")
    name = torch.cuda.get_device_name()
    sheet = next((s for key, s in SHEETS.items() if key in name), None)
    if sheet is None:
        raise SystemExit(f"gpu_rates: the data sheet of '{name}' is not in SHEETS; add its row")
    free, total = torch.cuda.mem_get_info()
    m = {"device": name, "torch": torch.__version__, "context_bytes": total - free - torch.cuda.memory_reserved()}
    m["copies"] = copies()
    m["launch_s"], m["issue_s"] = launches()
    m["elementwise"] = elementwise()
    m["update_moved"], m["update_counted"] = update()
    m["attention"] = {}
    backends = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}
    for head in (64, 96, 128):
        of = {name: {n: attention(b, torch.bfloat16, head, n) for n in (512, 1024, 2048, 4096, 8192, 16384)} for name, b in backends.items()}
        m["attention"][str(head)] = {"rates": of}
        for i, way in enumerate(("forward", "backward")):  # of the kernel that is faster over long texts: share · n / (n + half) through both ends
            rates = max(of.values(), key=lambda r: r[16384][i])
            low, high = rates[512][i] / sheet["bf16"], rates[16384][i] / sheet["bf16"]
            half = max(0.0, (1 / low - 1 / high) / (1 / (high * 512) - 1 / (low * 16384)))
            m["attention"][str(head)][way], m["attention"][str(head)][way + "_half"] = high * (1 + half / 16384), half
    m["products"] = {}
    for t in ("bf16", "f16", "f32"):
        torch.cuda.empty_cache()
        m["products"][t] = products(t, sheet[t], deadline)
    open(a.output, "w").write(toml(name, sheet, total, m))
    if a.json:
        plain = {**m, "products": {t: {"x".join(map(str, key)): s for key, s in grid.items()} for t, grid in m["products"].items()}}
        json.dump(plain, open(a.json, "w"), indent=1)
    grid = m["products"]["bf16"]
    print(json.dumps({key: m[key] for key in ("device", "context_bytes", "copies", "launch_s", "issue_s", "elementwise", "update_moved")}, indent=0))
    for head, a in m["attention"].items():
        print(f"attention, heads of {head}:", {key: round(value, 3) for key, value in a.items() if key != "rates"},
              {name: [round(x / 1e12) for x in rates[8192]] for name, rates in a["rates"].items()}, "TFLOP/s forward and backward over 8,192")
    print("bf16 shares:", {f"{r}x{r2}x{r2}": round(grid[r, r2, r2], 3) for r, r2 in ((8192, 8192), (8192, 4096), (2048, 4096), (8192, 1024), (512, 4096))})


if __name__ == "__main__":
    main()
