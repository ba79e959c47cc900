#!/usr/bin/env python3
"""GGUF files of every family that tern writes there, beside llama.cpp.

`python dev/golden/gguf_families.py TERN LLAMA_COMPLETION [NAME ...]`: a random model of each family with the tokenizer of
tests/golden/eval/trained, exported to GGUF in f32, writes 48 greedy tokens by tern and by llama.cpp: the same text, or texts that
first differ where transformers' own logits of the two likeliest tokens lie within MARGIN of each other (WIDE of those families whose gelu
llama.cpp takes by the tanh approximation, and of the mixtures, whose sums it orders otherwise). The margin of each parting is printed.
Without names all families; one line each, 1 as exit code if any failed. Nothing here runs at build or test time.
"""
import json
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
    "mistral": lambda: T.MistralConfig(**SMALL, sliding_window=None),
    "gpt2": lambda: T.GPT2Config(vocab_size=320, n_positions=256, n_embd=64, n_layer=4, n_head=4, bos_token_id=0, eos_token_id=None),
    "gemma": lambda: T.GemmaConfig(**SMALL, head_dim=16),
    # Windows are shorter than prompt and answer together.
    "gemma2": lambda: T.Gemma2Config(**SMALL, head_dim=16, query_pre_attn_scalar=16, sliding_window=16),
    "gemma3_text": lambda: T.Gemma3TextConfig(**{**SMALL, "num_hidden_layers": 6}, head_dim=16, query_pre_attn_scalar=16, sliding_window=16),
    "gpt_neox": lambda: T.GPTNeoXConfig(vocab_size=320, hidden_size=64, intermediate_size=96, num_hidden_layers=4, num_attention_heads=4,
                                        max_position_embeddings=256, bos_token_id=0, eos_token_id=None),
    "falcon": lambda: T.FalconConfig(vocab_size=320, hidden_size=64, num_hidden_layers=4, num_attention_heads=4, multi_query=True,
                                     parallel_attn=True, bias=False, alibi=False, max_position_embeddings=256, bos_token_id=0,
                                     eos_token_id=None),
    "bloom": lambda: T.BloomConfig(vocab_size=320, hidden_size=64, n_layer=4, n_head=4, bos_token_id=0, eos_token_id=None),
    "mixtral": lambda: T.MixtralConfig(**SMALL, num_local_experts=4, num_experts_per_tok=2, sliding_window=None),
    "qwen2_moe": lambda: T.Qwen2MoeConfig(**SMALL, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32,
                                          shared_expert_intermediate_size=64),
    "qwen3_moe": lambda: T.Qwen3MoeConfig(**SMALL, head_dim=16, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32,
                                          norm_topk_prob=True),
    # llama.cpp has yarn's ramp between whole dimensions: plain positions, on which both agree.
    "gpt_oss": lambda: T.GptOssConfig(**SMALL, head_dim=16, num_local_experts=4, num_experts_per_tok=2, sliding_window=16,
                                      rope_parameters={"rope_type": "default", "rope_theta": 10000.0}),
}
MARGIN, WIDE = 2e-3, 5e-2  # of logits
WIDER = {"gpt_neox", "falcon", "mixtral", "qwen2_moe", "qwen3_moe", "gpt_oss"}


def run(*command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, errors="replace")
    if done.returncode:
        raise RuntimeError(f"{command}: {done.stderr[-2000:]}")
    return done.stdout


def sample(tern, model):
    out = run(tern, "generate", model, "--prompt", PROMPT, "--max-tokens", 48, "--temperature", 0, "--ignore-eos", "--dtype", "f32", "--json")
    of = json.loads(out)["samples"][0]
    return of["text"].strip(), of["token_ids"]


def parting(model, tokenizer, prompt_ids, ids, theirs):
    """Where the other text leaves ours: the number of tokens in common, and how far the two likeliest logits are apart there."""
    same = 0
    while same < len(ids) and theirs.startswith(tokenizer.decode(ids[: same + 1]).rstrip("\ufffd")):
        same += 1
    with torch.no_grad():
        logits = model(torch.tensor([prompt_ids + ids[:same]])).logits[0, -1]
    first, second = torch.topk(logits, 2).values.tolist()
    return same, first - second


def main(tern, llama, *names):
    failed = 0
    for name in names or FAMILIES:
        with tempfile.TemporaryDirectory() as folder:
            here = pathlib.Path(folder)
            torch.manual_seed(3)
            config = FAMILIES[name]()
            model = T.AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
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
            ours, ids = sample(tern, here / "m.gguf")
            original, _ = sample(tern, here / "hf")
            # Random models write bytes that are no text; llama.cpp keeps such a tail back.
            ok = ours == original and ours.startswith(theirs.rstrip("\ufffd")) and len(theirs) > 0.8 * len(ours)
            note = ""
            if not ok and ours == original:
                tokenizer = T.PreTrainedTokenizerFast(tokenizer_file=str(here / "hf" / "tokenizer.json"))
                same, margin = parting(model, tokenizer, tokenizer(PROMPT)["input_ids"], ids, theirs)
                ok = margin <= (WIDE if name in WIDER else MARGIN)
                note = f" ({same} tokens in common, then two that are {margin:.2g} apart)"
            failed += not ok
            print(f"{'ok    ' if ok else 'FAILED'} {name}: {ours[-50:]!r}{note}" + ("" if ok else f"\n  llama.cpp {theirs!r}\n  tern {ours!r}\n  hf {original!r}"),
                  flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
