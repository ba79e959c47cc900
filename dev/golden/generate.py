"""Greedy continuations and window losses of the tiny golden models, by transformers in f32.

usage: python dev/golden/generate.py          (after dev/golden/models.py; writes tests/golden/models/NAME/generate.json)
"""
import json
import pathlib

import torch
from transformers import AutoModelForCausalLM

ROOT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden" / "models"
NUM_NEW = 64
MIN_MARGIN = 1e-4  # between the two highest logits: far above f32 noise, so that greedy decoding has one answer


def greedy(model, prompt, num_new):
    """Token ids one by one without a cache, and the smallest margin met."""
    ids, margin = list(prompt), float("inf")
    for _ in range(num_new):
        with torch.no_grad():
            logits = model(torch.tensor([ids])).logits[0, -1]
        top = torch.topk(logits, 2).values
        margin = min(margin, float(top[0] - top[1]))
        ids.append(int(logits.argmax()))
    return ids[len(prompt):], margin


for directory in sorted(p for p in ROOT.iterdir() if (p / "config.json").exists()):
    model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32, attn_implementation="eager").eval()
    vocab, context = model.config.vocab_size, model.config.max_position_embeddings
    num_new = min(NUM_NEW, context - 12)
    cases, seed = [], 0
    while len(cases) < 3:
        seed += 1
        generator = torch.Generator().manual_seed(seed)
        prompt = torch.randint(0, vocab, (3 + 4 * len(cases),), generator=generator).tolist()
        tokens, margin = greedy(model, prompt, num_new)
        if margin >= MIN_MARGIN:
            cases.append({"seed": seed, "prompt": prompt, "tokens": tokens, "margin": margin})
    generator = torch.Generator().manual_seed(99)
    text = torch.randint(0, vocab, (min(context, 48),), generator=generator)
    with torch.no_grad():
        logits = model(text[None]).logits[0].double()
    losses = -torch.log_softmax(logits[:-1], -1)[torch.arange(len(text) - 1), text[1:]]
    out = {"greedy": cases, "text": text.tolist(), "losses": [float(x) for x in losses]}
    (directory / "generate.json").write_text(json.dumps(out) + "\n")
    print(directory.name, [c["seed"] for c in cases], float(losses.mean()))
