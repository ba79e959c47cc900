#!/usr/bin/env python3
"""Adapters that `tern adapt` trained, loaded by PEFT in f32, give the log-probabilities that tern gives.

    python dev/golden/check_adapters.py --tern PROGRAM [--work DIR] [--model examples/novels-6m] [--steps 8] [--threads 1] [NAME …]

Each case (all, or those named) trains a few steps beside MODEL, which is read in f32, at a rate that moves it well. PEFT then loads the
directory; no tensor of it may be left over, and none missing. Compared are the log-probabilities of some hundred next tokens behind four
prompts, and of four sentences: |tern − PEFT| / max(1, |PEFT|) may be 2e-6 at most, and the adapter itself must move one of them by 0.01, so
that one that is ignored is found. Prints a line for each case; exit 1 if one fails. Needs torch, transformers and peft.
"""
import argparse
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import warnings

import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast
from transformers.utils import logging

ROOT = pathlib.Path(__file__).resolve().parents[2]
BOUND, LEAST_CHANGE = 2e-6, 0.01
FEW = ["--target", "q_proj,down_proj"]  # a full decomposition of every matrix takes a while
WHOLE = ["--save-modules", "embed_tokens,lm_head,model.norm"]
CASES = {
    "lora": [],
    "rslora": ["--method", "rslora"],
    "dora": ["--method", "dora"],
    "qalora": ["--method", "qalora"],
    "qblora": ["--method", "qblora"],
    "qablora": ["--method", "qablora"],
    "irqlora": ["--method", "irqlora"],
    "dpo": ["--method", "dpo"],
    "orthogonal": ["--init", "orthogonal"],
    "pissa": ["--init", "pissa", *FEW],
    "olora": ["--init", "olora", *FEW],
    "rslora-pissa": ["--method", "rslora", "--init", "pissa", *FEW],
    "whole": WHOLE,
    "dora-whole": ["--method", "dora", *WHOLE],
}
ASKED = [
    ("It was a dark evening in the old house, and the two sisters sat by the fire without a word", ", for neither knew what to say."),
    ("Mr. Brown looked up from his letters and said, with some impatience, that he had never", " heard of such a thing in his life."),
    ("The carriage stopped before the door of the inn; a tall man in a grey coat", " stepped out and asked for the landlord."),
    ("\"My dear child,\" cried the old lady, \"you must not think of going out in the", " rain without your shawl!\""),
]


def run(*command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(str(c) for c in command)}\n{done.stderr[-2000:]}")
    return done.stdout


class Check:
    def __init__(self, args):
        self.args = args
        self.tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(args.model / "tokenizer.json"))
        self.text, self.pairs, self.task = (args.work / name for name in ("text.txt", "pairs.jsonl", "task.jsonl"))
        self.text.write_text((ROOT / "README.md").read_text(encoding="utf-8")[:20_000], encoding="utf-8")
        self.pairs.write_text("".join(json.dumps({"prompt": p, "chosen": c, "rejected": " no."}) + "\n" for p, c in ASKED), encoding="utf-8")
        self.items = [(prompt, [*self.next_tokens(prompt), sentence]) for prompt, sentence in ASKED]
        self.task.write_text("".join(json.dumps({"prompt": p, "choices": c, "answer": 0}) + "\n" for p, c in self.items), encoding="utf-8")
        self.plain = self.theirs(self.base())

    def ids(self, text):
        return self.tokenizer(text, add_special_tokens=False).input_ids

    def next_tokens(self, prompt):
        """Texts of one token each that the tokenizer keeps apart from the prompt."""
        head, texts = self.ids(prompt), []
        for token in range(5, len(self.tokenizer), max(1, len(self.tokenizer) // 100)):
            text = self.tokenizer.decode([token])
            if "\ufffd" not in text and text and self.ids(prompt + text) == [*head, token]:
                texts.append(text)
        return texts

    def base(self):
        return AutoModelForCausalLM.from_pretrained(self.args.model, dtype=torch.float32)

    def theirs(self, model):
        found, model = [], model.eval()
        for prompt, choices in self.items:
            head = self.ids(prompt)
            with torch.no_grad():
                whole = [[*head, *self.ids(prompt + choices[-1])[len(head):]]]
                logs = torch.log_softmax(model(torch.tensor(whole)).logits[0].double(), -1)
            found += [logs[len(head) - 1, self.ids(prompt + c)[-1]].item() for c in choices[:-1]]
            found.append(sum(logs[i - 1, whole[0][i]].item() for i in range(len(head), len(whole[0]))))
        return found

    def ours(self, adapter):
        scores = json.loads(run(self.args.tern, "eval", self.args.model, "--adapter", adapter, "--task", self.task, "--bos", "never",
                                "--dtype", "f32", "--threads", self.args.threads, "--json"))["results"]
        return [ll for row in scores for ll in row["ll"]]

    def adapter(self, name):
        out, a = self.args.work / name, self.args
        shutil.rmtree(out, ignore_errors=True)
        amount = ["--seq", 64, "--batch", 4] if name == "dpo" else ["--seq", 32, "--batch", 2]
        run(a.tern, "adapt", a.model, "--data", self.pairs if name == "dpo" else self.text, "--output", out, "--rank", 4, *amount, "--steps",
            a.steps, "--schedule", "constant", "--warmup-steps", 0, "--learning-rate", "5e-3", "--dtype", "f32", "--threads", a.threads,
            *(["--micro-batch", 1] if name == "dpo" else []), *CASES[name])
        return out / "adapter"

    def loaded(self, where):
        """And the adapter's tensors that PEFT missed, or had no place for."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of tied tables; what is missing is asked below
            model = PeftModel.from_pretrained(self.base(), where)
            result = model.load_adapter(where, "default")
        missing = [key for key in result.missing_keys if "lora_" in key or "modules_to_save" in key]
        return model, [*missing, *result.unexpected_keys]

    def case(self, name):
        where = self.adapter(name)
        model, astray = self.loaded(where)
        theirs, ours = self.theirs(model), self.ours(where)
        error = max(abs(a - b) / max(1.0, abs(b)) for a, b in zip(ours, theirs, strict=True))
        change = max(abs(a - b) for a, b in zip(theirs, self.plain, strict=True))
        good = error <= BOUND and change >= LEAST_CHANGE and not astray
        print(f"{name}: {len(ours)} log-probabilities, relative error {error:.1e}, moved by up to {change:.2f}"
              f"{', astray ' + ', '.join(astray[:3]) if astray else ''} {'ok' if good else 'FAILED'}", flush=True)
        return good


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("names", nargs="*", metavar="NAME", help="of " + ", ".join(CASES))
    p.add_argument("--tern", type=pathlib.Path, default=ROOT / "build/release/bin/tern")
    p.add_argument("--work", type=pathlib.Path, help="not given: a folder that is removed")
    p.add_argument("--model", type=pathlib.Path, default=ROOT / "examples/novels-6m")
    p.add_argument("--steps", type=int, default=8)
    p.add_argument("--threads", type=int, default=1)
    args = p.parse_args()
    if unknown := [name for name in args.names if name not in CASES]:
        p.error(f"no case: {', '.join(unknown)}; there are {', '.join(CASES)}")
    torch.set_num_threads(args.threads)
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    with tempfile.TemporaryDirectory() as folder:
        args.work = (args.work or pathlib.Path(folder)).resolve()
        args.work.mkdir(parents=True, exist_ok=True)
        check = Check(args)
        failed = [name for name in args.names or CASES if not check.case(name)]
    print(f"{len(args.names or CASES)} adapters, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
