#!/usr/bin/env python3
"""The small models of ../training/peer.py by PyTorch on ranks that talk over Gloo: prints one line of JSON on rank 0.

    RANK=… WORLD_SIZE=… MASTER_ADDR=… MASTER_PORT=… peer_ranks.py CASE eager|compile f32|bf16 one|ddp|fsdp SECONDS [THREADS]

Each rank has an equal part of the same global batch. one: no ranks, a process alone. ddp: DistributedDataParallel, gradients summed beside
the backward. fsdp: fully_shard of every block and the whole (ZeRO 3), or FullyShardedDataParallel where there is none. Needs torch."""
import json
import os
import pathlib
import resource
import sys
import time

import torch
import torch.distributed as dist

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "training"))
from make_case import BATCH, CASES, SEQ, tokens  # noqa: E402
from peer import Model, adamw, train_step  # noqa: E402


def in_parts(model):
    try:
        from torch.distributed.fsdp import fully_shard
    except ImportError:
        from torch.distributed.fsdp import FullyShardedDataParallel
        return FullyShardedDataParallel(model, device_id=torch.device("cpu"), use_orig_params=True)
    mesh = dist.device_mesh.init_device_mesh("cpu", (dist.get_world_size(),))
    for part in (*model.blocks, model):
        fully_shard(part, mesh=mesh)
        if hasattr(part, "set_force_sum_reduction_for_comms"):
            part.set_force_sum_reduction_for_comms(True)  # Gloo has no mean
    return model


def main(case, mode, dtype, kind, seconds, threads=1):
    torch.set_num_threads(int(threads))
    torch.manual_seed(1)
    rank, ranks = 0, 1
    if kind != "one":
        dist.init_process_group("gloo")
        rank, ranks = dist.get_rank(), dist.get_world_size()
    vocab = CASES[case]
    data = torch.tensor(tokens(vocab)[: 80 * (BATCH * SEQ) + 1], dtype=torch.int64)
    model = Model(case)
    if kind == "ddp":
        model = torch.nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
    elif kind == "fsdp":
        model = in_parts(model)
    step_model = torch.compile(model) if mode == "compile" else model
    optimizer = adamw(model, fused=kind != "fsdp")
    rates, begin, step, own = [], None, 0, BATCH // ranks
    going = torch.ones(1)
    while going.item() > 0:
        at = step % 79 * BATCH * SEQ + rank * own * SEQ
        ids, targets = data[at:at + own * SEQ].view(own, SEQ), data[at + 1:at + own * SEQ + 1].view(own, SEQ)
        start = time.monotonic()
        loss = train_step(step_model, model, optimizer, ids, targets, dtype)
        step += 1
        if step == 2:  # compiled, buffers there
            begin = time.monotonic()
        elif step > 2:
            rates.append(BATCH * SEQ / (time.monotonic() - start))
        going.fill_(1.0 if begin is None or time.monotonic() - begin < float(seconds) or len(rates) < 2 else 0.0)
        if ranks > 1:
            dist.broadcast(going, 0)  # all end at one step
    if rank == 0:
        print(json.dumps({"tokens_per_s": rates, "loss": loss.item(), "version": torch.__version__,
                          "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}))
    if kind != "one":
        dist.destroy_process_group()


if __name__ == "__main__":
    if len(sys.argv) not in (6, 7) or sys.argv[1] not in CASES:
        sys.exit(__doc__)
    main(*sys.argv[1:])
