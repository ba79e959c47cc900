"""Numbers that are functions of a name and a place: model/golden_weights_testing.h has the same ones."""
import numpy as np
import torch


def golden_values(name, count, spread):
    h = 2166136261
    for c in name.encode():
        h = ((h ^ c) * 16777619) & 0xFFFFFFFF
    x = (np.arange(count, dtype=np.uint64) * 2654435761 + h).astype(np.uint32)
    with np.errstate(over="ignore"):
        x = (x ^ (x >> np.uint32(16))) * np.uint32(0x85EBCA6B)
        x = (x ^ (x >> np.uint32(13))) * np.uint32(0xC2B2AE35)
        x = x ^ (x >> np.uint32(16))
    values = (x >> np.uint32(8)).astype(np.float32) / np.float32(2**23) - np.float32(1)
    return torch.from_numpy(np.float32(spread) * values)
