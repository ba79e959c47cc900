#!/usr/bin/env python3
"""What tern exports and measures, beside transformers and llama.cpp.

`python dev/golden/check_models.py TERN MODEL TASK.jsonl [LLAMA_COMPLETION]`: exports MODEL (a directory or a GGUF file of a model
with a tokenizer) to a Hugging Face directory, loads it with transformers and compares token ids, 64 greedy tokens and the
log-likelihoods of TASK's choices (sums over the answer's tokens, as lm-evaluation-harness parts them) with tern's; exports to GGUF
in four types and compares llama.cpp's greedy text with tern's from the same file.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import torch
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

PROMPT = "Once upon a time, there was a little girl"


def run(*command):
    return subprocess.run([str(c) for c in command], check=True, capture_output=True, text=True).stdout


def check(what, ok, detail=""):
    print(f"{'ok    ' if ok else 'FAILED'} {what} {detail}")
    return ok


def against_transformers(tern, folder, task):
    model, info = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, output_loading_info=True)
    # The file itself: for some families the automatic class puts its own splitting in the place of the file's.
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))
    good = check("every tensor is claimed", not any(info[k] for k in ("missing_keys", "unexpected_keys", "mismatched_keys")))
    ids = tokenizer(PROMPT, return_tensors="pt").input_ids
    out = model.generate(ids, max_new_tokens=64, do_sample=False)[0][ids.shape[1]:].tolist()
    ours = json.loads(run(tern, "generate", folder, "--prompt", PROMPT, "--max-tokens", 64, "--json"))
    good &= check("ids of the prompt", ours["prompt_tokens"] == ids.shape[1])
    good &= check("64 greedy tokens", ours["token_ids"] == out[:len(ours["token_ids"])])
    # Nothing in front, where tern would put a token that the tokenizer does not.
    bare = tokenizer("").input_ids == []
    scores = json.loads(run(tern, "eval", folder, "--task", task, "--json", *(["--bos", "never"] if bare else [])))["results"]
    worst = 0.0
    for item, row in zip((json.loads(line) for line in open(task)), scores):
        for choice, ll in zip(item["choices"], row["ll"]):
            prompt = item["prompt"]
            whole, head = tokenizer(prompt + choice).input_ids, len(tokenizer(prompt.rstrip()).input_ids)
            with torch.no_grad():
                logs = torch.log_softmax(model(torch.tensor([whole])).logits[0].double(), -1)
            want = sum(logs[i - 1, whole[i]].item() for i in range(head, len(whole)))
            worst = max(worst, abs(ll - want) / max(1.0, abs(want)))
    return good & check("log-likelihoods of the choices", worst <= 1e-6, f"relative {worst:.1e}")


def against_llama(tern, llama, folder, out):
    good = True
    for kind in ("f32", "f16", "bf16", "q8_0"):
        file = out / f"{kind}.gguf"
        run(tern, "export", folder, "--format", "gguf", "--dtype", kind, "--output", file)
        theirs = run(llama, "-m", file, "-p", PROMPT, "-n", 64, "--temp", 0, "-no-cnv", "-t", 1, "--no-warmup",
                     "--no-display-prompt", "-fa", "off", "-ctk", "f32", "-ctv", "f32").strip()
        ours = run(tern, "generate", file, "--prompt", PROMPT, "--max-tokens", 64).strip()
        good &= check(f"llama.cpp writes the same text from {kind}", ours == theirs, repr(ours[-40:]))
    return good


def main(tern, model, task, llama=None):
    with tempfile.TemporaryDirectory() as out:
        out = pathlib.Path(out)
        folder = out / "hf"
        run(tern, "export", model, "--dtype", "f32", "--output", folder)
        good = against_transformers(tern, folder, task)
        if llama:
            good &= against_llama(tern, llama, folder, out)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
