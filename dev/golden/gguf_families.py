#!/usr/bin/env python3
"""GGUF files of every family that tern writes there, beside llama.cpp.

`python dev/golden/gguf_families.py TERN LLAMA_COMPLETION [NAME ...]`: a random model of each family with the tokenizer of
tests/golden/eval/trained, exported to GGUF in f32, writes 48 greedy tokens by tern and by llama.cpp: the same text. Nothing here
runs at build or test time.
"""
import pathlib
import shutil
import subprocess
import sys
import tempfile

import torch
import transformers as T

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOKENIZER = ROOT / "tests" / "golden" / "eval" / "trained"
PROMPT = "Licensed under the"
SMALL = dict(vocab_size=320, hidden_size=64, intermediate_size=96, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2,
             max_position_embeddings=256, bos_token_id=0, eos_token_id=None, pad_token_id=None)
FAMILIES = {
    "llama": lambda: T.LlamaConfig(**SMALL),
    "qwen2": lambda: T.Qwen2Config(**SMALL),
    "qwen3": lambda: T.Qwen3Config(**SMALL, head_dim=16),
    "granite": lambda: T.GraniteConfig(**SMALL, embedding_multiplier=3.0, logits_scaling=2.0, residual_multiplier=0.5,
                                       attention_multiplier=0.25),
    "smollm3": lambda: T.SmolLM3Config(**SMALL, tie_word_embeddings=True),
    "olmo2": lambda: T.Olmo2Config(**SMALL, tie_word_embeddings=False),
    "phi3": lambda: T.Phi3Config(**SMALL, original_max_position_embeddings=256),
}


def run(*command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, errors="replace")
    if done.returncode:
        raise RuntimeError(f"{command}: {done.stderr[-2000:]}")
    return done.stdout


def main(tern, llama, *names):
    failed = 0
    for name in names or FAMILIES:
        with tempfile.TemporaryDirectory() as folder:
            here = pathlib.Path(folder)
            torch.manual_seed(3)
            config = FAMILIES[name]()
            model = T.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
            with torch.no_grad():
                for p in model.parameters():
                    if p.dim() > 1:
                        p.normal_(0, 0.15)
            model.save_pretrained(here / "hf")
            for file in ("tokenizer.json", "tokenizer_config.json"):
                shutil.copy(TOKENIZER / file, here / "hf")
            run(tern, "export", here / "hf", "--format", "gguf", "--dtype", "f32", "--output", here / "m.gguf")
            theirs = run(llama, "-m", here / "m.gguf", "-p", PROMPT, "-n", 48, "--temp", 0, "-no-cnv", "-t", 1, "--no-warmup",
                         "--no-display-prompt", "-fa", "off", "-ctk", "f32", "-ctv", "f32", "--ignore-eos").strip()
            ours = run(tern, "generate", here / "m.gguf", "--prompt", PROMPT, "--max-tokens", 48, "--ignore-eos").strip()
            original = run(tern, "generate", here / "hf", "--prompt", PROMPT, "--max-tokens", 48, "--ignore-eos").strip()
            # Random models write bytes that are no text; llama.cpp keeps such a tail back.
            ok = ours == original and ours.startswith(theirs.rstrip("\ufffd")) and len(theirs) > 0.8 * len(ours)
            failed += not ok
            print(f"{'ok    ' if ok else 'FAILED'} {name}: {ours[-50:]!r}" + ("" if ok else f"\n  llama.cpp {theirs!r}\n  tern {ours!r}\n  hf {original!r}"),
                  flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
