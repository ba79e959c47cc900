#!/usr/bin/env python3
"""Perplexity of the real 260K-parameter model of TERN_DATA/tiny-llama2c by transformers.

`TERN_DATA=… python dev/golden/tiny_llama2c.py` writes tests/golden/eval/tiny_llama2c.json: the ids are those of llama2.c's own
merging (best score first), the windows those of `tern eval` (128 tokens, BOS in front, stride 127 and 64), f32.
"""
import json
import math
import os
import pathlib
import struct

import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM

DATA = pathlib.Path(os.environ["TERN_DATA"])
OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden" / "eval" / "tiny_llama2c.json"
TEXT_BYTES = 3000
torch.set_num_threads(1)


def read_model():
    raw = (DATA / "tiny-llama2c/model.bin").read_bytes()
    dim, hidden, layers, heads, kv, vocab, context = struct.unpack("7i", raw[:28])
    flat, at = np.frombuffer(raw, np.float32, offset=28), 0

    def take(*shape):
        nonlocal at
        n = math.prod(shape)
        at += n
        return torch.from_numpy(flat[at - n:at].reshape(shape).copy())

    def turn(w, n):  # pairs of neighbours -> halves of a head
        return w.reshape(n, -1, 2, dim).transpose(1, 2).reshape(w.shape)

    kv_dim = dim // heads * kv
    embed = take(vocab, dim)
    parts = [take(layers, dim), take(layers, dim, dim), take(layers, kv_dim, dim), take(layers, kv_dim, dim), take(layers, dim, dim),
             take(layers, dim), take(layers, hidden, dim), take(layers, dim, hidden), take(layers, hidden, dim)]
    model = LlamaForCausalLM(LlamaConfig(
        vocab_size=vocab, hidden_size=dim, intermediate_size=hidden, num_hidden_layers=layers, num_attention_heads=heads,
        num_key_value_heads=kv, max_position_embeddings=context, rms_norm_eps=1e-5, tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0}))
    state = {"model.embed_tokens.weight": embed, "model.norm.weight": take(dim), "lm_head.weight": embed}
    for i in range(layers):
        norm, q, k, v, o, ffn_norm, gate, down, up = (p[i] for p in parts)
        name = f"model.layers.{i}."
        state |= {name + "input_layernorm.weight": norm, name + "self_attn.q_proj.weight": turn(q, heads),
                  name + "self_attn.k_proj.weight": turn(k, kv), name + "self_attn.v_proj.weight": v,
                  name + "self_attn.o_proj.weight": o, name + "post_attention_layernorm.weight": ffn_norm,
                  name + "mlp.gate_proj.weight": gate, name + "mlp.down_proj.weight": down, name + "mlp.up_proj.weight": up}
    model.load_state_dict(state)
    return model.eval()


def encode(text):
    raw, at, scores, ids = (DATA / "tiny-llama2c/tok512.bin").read_bytes(), 4, [], {}
    pieces = []
    while at < len(raw):
        score, n = struct.unpack("fi", raw[at:at + 8])
        pieces.append(raw[at + 8:at + 8 + n].decode())
        ids[pieces[-1]] = len(scores)
        scores.append(score)
        at += 8 + n
    tokens = []
    for c in " " + text:
        tokens += [ids[c]] if c in ids else [b + 3 for b in c.encode()]
    while True:
        best, where = -1e10, -1
        for i in range(len(tokens) - 1):
            merged = ids.get(pieces[tokens[i]] + pieces[tokens[i + 1]], -1)
            if merged >= 0 and scores[merged] > best:
                best, where, into = scores[merged], i, merged
        if where < 0:
            return tokens
        tokens[where:where + 2] = [into]


def perplexity(model, tokens, stride, window=128):
    tokens, total, scored, begin, done = [1] + tokens, 0.0, 0, 0, 1
    while done < len(tokens):
        part = torch.tensor([tokens[begin:begin + window]])
        with torch.no_grad():
            logs = torch.log_softmax(model(part, use_cache=False).logits[0].double(), -1)
        for i in range(1, part.shape[1]):
            if begin + i >= done:
                total -= logs[i - 1, part[0, i]].item()
                scored += 1
        done, begin = begin + part.shape[1], begin + stride
    return {"perplexity": math.exp(total / scored), "scored": scored}


model = read_model()
ids = encode((DATA / "text/frankenstein.txt").read_bytes()[:TEXT_BYTES].decode())
golden = {"text_bytes": TEXT_BYTES, "tokens": len(ids), "disjoint": perplexity(model, ids, 127), "overlapping": perplexity(model, ids, 64)}
OUT.write_text(json.dumps(golden) + "\n")
print(golden)
