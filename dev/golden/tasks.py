#!/usr/bin/env python3
"""Golden log-likelihoods and answers of `tern eval --task`, by transformers, in the way of lm-evaluation-harness.

`python dev/golden/tasks.py` takes three models of tests/golden/families (weights are functions of their names), a tokenizer
with one piece for a letter that has a BOS and an EOS, once without and once with a post-processor that puts BOS in front, and
writes tests/golden/eval/tasks.json: what the tokenizer adds stands in front of a prompt and nothing else; white space at a
prompt's end goes to the choice; an empty prompt is BOS. Nothing here runs at build or test time.
"""
import json
import pathlib
import tempfile

import torch
from families import IMPLEMENTATION, OUT as FAMILIES, ROOT, values
from safetensors.torch import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, processors
from transformers import AutoModelForCausalLM

OUT = ROOT / "tests" / "golden" / "eval" / "tasks.json"
MODELS = ["llama3", "gpt2", "qwen2"]
BOS, EOS, NEW = 42, 43, 12
CHOICES = [("a cat", [" sat", " xq", " ran off"]), ("the end. ", ["so", "we go"]), ("", ["b", "cc", "d?"]), ("  ", ["a", "b c"])]
PROMPTS = ["ab", "the quick", "q: 2 and 2?\na:"]


def make_tokenizer(adds_bos):
    letters = "abcdefghijklmnopqrstuvwxyz .,?!0123456789\n"
    vocab = {c: i for i, c in enumerate(letters)}
    t = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    t.decoder = decoders.Fuse()
    t.add_special_tokens([AddedToken("<s>", special=True, normalized=False), AddedToken("</s>", special=True, normalized=False)])
    assert t.token_to_id("<s>") == BOS and t.token_to_id("</s>") == EOS
    if adds_bos:
        t.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A $B", special_tokens=[("<s>", BOS)])
    return t


def load(name):
    golden = json.loads((FAMILIES / f"{name}.json").read_text())
    tensors = {k: values(k, tuple(t["shape"]), t["middle"], t["spread"]) for k, t in golden["tensors"].items()}
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "config.json").write_text(json.dumps(golden["config"]))
        save_file(tensors, pathlib.Path(folder) / "model.safetensors", metadata={"format": "pt"})
        return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32,
                                                    attn_implementation=IMPLEMENTATION.get(name, "eager")).eval()


def log_likelihood(model, tokenizer, prompt, choice):
    """lm_eval.models: _encode_pair and _loglikelihood_tokens (recalled), on one pair."""
    blanks = len(prompt) - len(prompt.rstrip())
    prompt, choice = prompt[:len(prompt) - blanks], prompt[len(prompt) - blanks:] + choice
    if prompt:
        context = tokenizer.encode(prompt).ids
        whole = tokenizer.encode(prompt + choice).ids
    else:
        context = [BOS]
        whole = context + tokenizer.encode(choice, add_special_tokens=False).ids
    with torch.no_grad():
        logs = torch.log_softmax(model(torch.tensor([whole])).logits[0].double(), -1)
    return sum(logs[i - 1, whole[i]].item() for i in range(len(context), len(whole)))


def greedy(model, tokenizer, prompt):
    ids = tokenizer.encode(prompt).ids
    begin = len(ids)
    with torch.no_grad():
        while len(ids) - begin < NEW:
            ids.append(int(model(torch.tensor([ids]), use_cache=False).logits[0, -1].argmax()))
            if ids[-1] == EOS:
                break
    return tokenizer.decode([i for i in ids[begin:] if i < BOS])


golden = {"questions": [{"prompt": p, "choices": c, "answer": 0} for p, c in CHOICES],
          "prompts": [{"prompt": p, "answer": "x", "max_tokens": NEW} for p in PROMPTS], "cases": []}
for adds_bos in (False, True):
    tokenizer = make_tokenizer(adds_bos)
    case = {"tokenizer": json.loads(tokenizer.to_str()), "bos": "BOS in front" if adds_bos else "none", "models": {}}
    for name in MODELS:
        model = load(name)
        case["models"][name] = {"ll": [[log_likelihood(model, tokenizer, p, c) for c in choices] for p, choices in CHOICES],
                                "texts": [greedy(model, tokenizer, p) for p in PROMPTS]}
    golden["cases"].append(case)
OUT.write_text(json.dumps(golden, sort_keys=True) + "\n")
print(OUT.stat().st_size, "bytes", json.dumps(golden["cases"][0]["models"])[:400])
