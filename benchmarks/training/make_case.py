#!/usr/bin/env python3
"""Writes the small models of the training comparison and data for them: config.json and random tokens.

    make_case.py NAME DIRECTORY       NAME: 15m or 7m, Llamas with a vocabulary of 32,000 and 4,096 words; 7m-8x2 or
                                      7m-32x4, mixtures with the dense 7m's FLOPs: 2 of 8 experts of half the hidden
                                      width for each token, or 4 of 32 of a quarter

Needs the standard library alone. The tokens are drawn from a skewed distribution with a fixed seed, so that the loss falls
a little, as it does on text; no file of ours ships with them.
"""
import array
import json
import pathlib
import random
import struct
import sys

CASES = {"15m": 32000, "7m": 4096, "7m-8x2": 4096, "7m-32x4": 4096}
EXPERTS = {"7m-8x2": (8, 2), "7m-32x4": (32, 4)}  # how many there are, and for a token
WIDTH, LAYERS, HEADS, HIDDEN, SEQ, BATCH = 288, 6, 6, 768, 256, 16
NUM_TOKENS = 400_000


def config(name):
    vocab, (experts, top_k) = CASES[name], EXPERTS.get(name, (0, 1))
    mixture = {"num_local_experts": experts, "num_experts_per_tok": top_k, "sliding_window": None} if experts else {}
    return {
        "model_type": "mixtral" if experts else "llama",
        "architectures": ["MixtralForCausalLM" if experts else "LlamaForCausalLM"],
        "vocab_size": vocab,
        "hidden_size": WIDTH,
        "intermediate_size": HIDDEN // top_k,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": HEADS,
        "hidden_act": "silu",
        "max_position_embeddings": SEQ,
        "initializer_range": 0.02,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "tie_word_embeddings": True,
        "torch_dtype": "float32",
        **mixture,
    }


def tokens(vocab):
    draw = random.Random(1)
    return array.array("H", (int(vocab * draw.random() ** 3) for _ in range(NUM_TOKENS)))


def write_token_file(path, vocab):
    """The format of formats/data/token_data.h: one safetensors file, one document."""
    ids, documents = tokens(vocab).tobytes(), struct.pack("<qq", 0, NUM_TOKENS)
    header = {
        "__metadata__": {"format": "tern-tokens-1", "vocab_size": str(vocab), "text_bytes": str(4 * NUM_TOKENS)},
        "documents": {"dtype": "I64", "shape": [2], "data_offsets": [0, 16]},
        "tokens": {"dtype": "U16", "shape": [NUM_TOKENS], "data_offsets": [16, 16 + len(ids)]},
    }
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + documents + ids)


def make(name, directory):
    directory = pathlib.Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.json").write_text(json.dumps(config(name), indent=2) + "\n")
    write_token_file(directory / "data.tokens", CASES[name])


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in CASES:
        sys.exit(__doc__)
    make(sys.argv[1], sys.argv[2])
