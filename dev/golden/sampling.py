"""Golden file of the sampling filters: transformers' own processors and warpers on random logits.

usage: python dev/golden/sampling.py > tests/golden/sampling.json
"""
import json

import torch
from transformers import (MinPLogitsWarper, RepetitionPenaltyLogitsProcessor, TemperatureLogitsWarper, TopKLogitsWarper,
                          TopPLogitsWarper)

torch.manual_seed(20261121)
cases = []
for options in (
    {"temperature": 0.7},
    {"temperature": 1.0, "top_k": 5},
    {"temperature": 1.3, "top_p": 0.8},
    {"temperature": 0.9, "min_p": 0.1},
    {"temperature": 0.8, "top_k": 12, "top_p": 0.9, "min_p": 0.05, "repetition_penalty": 1.3},
    {"temperature": 2.0, "top_p": 0.35, "repetition_penalty": 0.8},
):
    for _ in range(3):
        logits = torch.randn(1, 40) * 2
        history = torch.randint(0, 40, (1, 9))
        scores = logits.clone()
        if "repetition_penalty" in options:
            scores = RepetitionPenaltyLogitsProcessor(options["repetition_penalty"])(history, scores)
        scores = TemperatureLogitsWarper(options["temperature"])(history, scores)
        if "top_k" in options:
            scores = TopKLogitsWarper(options["top_k"])(history, scores)
        if "top_p" in options:
            scores = TopPLogitsWarper(options["top_p"])(history, scores)
        if "min_p" in options:
            scores = MinPLogitsWarper(options["min_p"])(history, scores)
        probabilities = torch.softmax(scores.double(), -1)[0]
        kept = [i for i in range(40) if probabilities[i] > 0]
        cases.append({"options": options, "history": history[0].tolist(), "logits": [float(x) for x in logits[0]],
                      "ids": kept, "probabilities": [round(float(probabilities[i]), 9) for i in kept]})
print(json.dumps(cases))
