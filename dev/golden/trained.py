#!/usr/bin/env python3
"""The perplexity of a model trained by tern train, by transformers on what tern exported.

`python dev/golden/trained.py TERN` trains a model of 28,000 parameters on three quarters of LICENSE (its tokenizer too),
exports it, measures the last quarter with transformers over the windows of `tern eval` and compares with what that prints,
and writes model, text and figures to tests/golden/eval/trained/. Nothing here runs at build or test time.
"""
import json
import math
import pathlib
import shutil
import subprocess
import sys
import tempfile

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = ROOT / "tests" / "golden" / "eval" / "trained"
CONTEXT = 64
CONFIG = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 320, "hidden_size": 32, "intermediate_size": 64,
          "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": CONTEXT,
          "hidden_act": "silu", "rms_norm_eps": 1e-5, "tie_word_embeddings": True, "initializer_range": 0.02,
          "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}, "bos_token_id": 0, "eos_token_id": 0}
torch.set_num_threads(1)


def perplexity(model, ids, stride):
    """Windows of CONTEXT tokens, each moved by `stride` and scoring what is new; the first scores all but its first token."""
    total, scored, begin, done = 0.0, 0, 0, 1
    while done < len(ids):
        end = min(begin + CONTEXT, len(ids))
        window = torch.tensor([ids[begin:end]])
        with torch.no_grad():
            logs = torch.log_softmax(model(window).logits[0].double(), -1)
        for at in range(done, end):
            total -= logs[at - begin - 1, ids[at]].item()
            scored += 1
        done, begin = end, begin + stride
    return {"perplexity": math.exp(total / scored), "scored": scored, "sum_loss": total}


def main(tern):
    def run(*command):
        return subprocess.run([str(c) for c in (tern, *command)], check=True, capture_output=True, text=True).stdout

    text = (ROOT / "LICENSE").read_text()
    cut = len(text) * 3 // 4
    with tempfile.TemporaryDirectory() as folder:
        here = pathlib.Path(folder)
        (here / "train.txt").write_text(text[:cut])
        (here / "config.json").write_text(json.dumps(CONFIG))
        run("tokenize", "--train", "--vocab-size", CONFIG["vocab_size"], "--input", here / "train.txt", "--output", here / "tokenizer")
        run("train", here / "config.json", "--from-scratch", "--tokenizer", here / "tokenizer", "--data", here / "train.txt", "--seq",
            CONTEXT, "--batch", 8, "--steps", 200, "--learning-rate", "3e-3", "--warmup-steps", 10, "--output", here / "run")
        shutil.rmtree(OUT, ignore_errors=True)
        run("export", here / "run" / "model", "--dtype", "bf16", "--output", OUT)
    (OUT / "text.txt").write_text(text[cut:])
    model, tokenizer = AutoModelForCausalLM.from_pretrained(OUT, dtype=torch.float32).eval(), AutoTokenizer.from_pretrained(OUT)
    ids = tokenizer(text[cut:], add_special_tokens=False).input_ids
    expected, worst = {"tokens": len(ids), "context": CONTEXT}, 0.0
    for stride in (CONTEXT - 1, CONTEXT // 2):
        expected[str(stride)] = perplexity(model, ids, stride)
        ours = json.loads(run("eval", OUT, "--data", OUT / "text.txt", "--dtype", "f32", "--window", CONTEXT, "--stride", stride,
                              "--bos", "never", "--json"))
        worst = max(worst, abs(ours["perplexity"] / expected[str(stride)]["perplexity"] - 1))
        print(f"stride {stride}: transformers {expected[str(stride)]['perplexity']:.6f}, tern {ours['perplexity']:.6f}, "
              f"{expected[str(stride)]['scored']} and {ours['scored_tokens']} tokens")
        assert ours["scored_tokens"] == expected[str(stride)]["scored"]
    assert worst < 1e-4, worst
    (OUT / "expected.json").write_text(json.dumps(expected, sort_keys=True) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
