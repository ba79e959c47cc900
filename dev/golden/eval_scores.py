#!/usr/bin/env python3
"""Golden figures of evaluation: log-likelihoods and picks of choices, KL divergence, standard errors, exact match.

`python dev/golden/eval_scores.py` writes tests/golden/eval/scores.json from random logits, by the formulas of
lm-evaluation-harness (log_softmax, gather, sum; argmax; argmax per character and per byte; sample standard error) in numpy's f64.
"""
import json
import pathlib
import re
import string

import numpy as np

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden" / "eval" / "scores.json"
rng = np.random.default_rng(20261121)


def log_softmax(x):
    x = x.astype(np.float64)
    m = x.max(-1, keepdims=True)
    return x - m - np.log(np.exp(x - m).sum(-1, keepdims=True))


def items():
    words = [" yes", " no", " maybe so", " überall", " 山", " an answer of many words", " x"]
    out = []
    for _ in range(12):
        choices = []
        for text in rng.choice(words, size=int(rng.integers(2, 5)), replace=False):
            tokens = int(rng.integers(1, 6))
            logits = (rng.normal(size=(tokens, 11)) * 2).astype(np.float32)
            targets = rng.integers(0, 11, size=tokens)
            ll = float(log_softmax(logits)[np.arange(tokens), targets].sum())
            choices.append({"text": str(text), "logits": logits.tolist(), "targets": targets.tolist(), "ll": ll})
        lls = np.array([c["ll"] for c in choices])
        chars = np.array([float(len(c["text"])) for c in choices])
        num_bytes = np.array([float(len(c["text"].encode())) for c in choices])
        tokens = np.array([float(len(c["targets"])) for c in choices])
        out.append({"choices": choices, "sum": int(np.argmax(lls)), "character": int(np.argmax(lls / chars)),
                    "byte": int(np.argmax(lls / num_bytes)), "token": int(np.argmax(lls / tokens))})
    return out


def rows():
    out = []
    for scale in (0.0, 0.01, 1.0, 8.0):
        p = (rng.normal(size=11) * 3).astype(np.float32)
        q = (p + rng.normal(size=11) * scale).astype(np.float32)
        lp, lq = log_softmax(p), log_softmax(q)
        target = int(rng.integers(0, 11))
        out.append({"reference": p.tolist(), "logits": q.tolist(), "target": target, "kl": float((np.exp(lp) * (lp - lq)).sum()),
                    "same_top": bool(p.argmax() == q.argmax()), "loss": float(-lq[target]), "reference_loss": float(-lp[target])})
    return out


def means():
    values = [[1.0], [1.0, 0.0, 0.0, 1.0, 1.0], rng.normal(size=30).tolist()]
    return [{"values": v, "mean": float(np.mean(v)), "stderr": float(np.std(v, ddof=1) / np.sqrt(len(v))) if len(v) > 1 else 0.0}
            for v in values]


def folded(text, case, punctuation):
    text = text.strip()
    if case:
        text = text.lower()
    return re.sub(f"[{re.escape(string.punctuation)}]", "", text) if punctuation else text


def matches():
    pairs = [("Paris", "Paris"), (" Paris\n", "Paris"), ("paris.", "Paris"), ("42", "43"), ("it's", "its"), ("$1,000", "1000"), ("", "x")]
    return [{"text": t, "answer": a, "ignore_case": c, "ignore_punctuation": p, "match": folded(t, c, p) == folded(a, c, p)}
            for t, a in pairs for c in (False, True) for p in (False, True)]


OUT.parent.mkdir(parents=True, exist_ok=True)
OUT.write_text(json.dumps({"items": items(), "rows": rows(), "means": means(), "matches": matches()}, ensure_ascii=False) + "\n")
print(OUT, OUT.stat().st_size, "bytes")
