#!/usr/bin/env python3
"""Fifty steps of TRL's DPOTrainer on examples/novels-6m: the pairs, the adapter it begins with, and the loss of every step.

Run from the root of the repository with a Python that has torch, transformers, peft==0.21.2 and trl==1.16.0: `python dev/golden/dpo.py`.
Writes tests/golden/dpo/: pairs.jsonl, begin/ (the PEFT directory before the first step) and losses.json. Nothing here runs at build or test
time.
"""
import json
import pathlib
import random
import tempfile

import torch
from datasets import Dataset
from peft import LoraConfig, get_peft_model
from torch.utils.data import SequentialSampler
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import DPOConfig, DPOTrainer

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL, OUT = ROOT / "examples" / "novels-6m", ROOT / "tests" / "golden" / "dpo"
STEPS, PAIRS = 50, 2
torch.set_num_threads(2)

random.seed(3)
nouns, verbs = ["ship", "lady", "house", "road", "letter", "garden"], ["was", "stood", "seemed", "lay"]
pairs = []
for i in range(16):
    noun, verb = random.choice(nouns), random.choice(verbs)
    pairs.append({"prompt": f"In the morning the {noun}",
                  "chosen": f" {verb} quiet, and nobody said a word of it to the {random.choice(nouns)}.",
                  "rejected": f" {verb} {noun} {noun} {noun}" + " and" * random.randint(1, 4) + "!"})
OUT.mkdir(parents=True, exist_ok=True)
(OUT / "pairs.jsonl").write_text("".join(json.dumps(p) + "\n" for p in pairs))

torch.manual_seed(5)
tokenizer = AutoTokenizer.from_pretrained(MODEL)
tokenizer.pad_token = tokenizer.eos_token
model = AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32)
model = get_peft_model(model, LoraConfig(task_type="CAUSAL_LM", r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"]))
model.save_pretrained(OUT / "begin")
(OUT / "begin" / "README.md").unlink(missing_ok=True)
config = json.loads((OUT / "begin" / "adapter_config.json").read_text())
config["base_model_name_or_path"] = "novels-6m"
(OUT / "begin" / "adapter_config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
losses = []


class Trainer(DPOTrainer):
    def _get_train_sampler(self, *_):
        return SequentialSampler(self.train_dataset)

    def compute_loss(self, *args, **kwargs):
        loss = super().compute_loss(*args, **kwargs)
        losses.append(float(loss[0] if isinstance(loss, tuple) else loss))
        return loss


with tempfile.TemporaryDirectory() as folder:
    trainer = Trainer(model, args=DPOConfig(
        folder, max_steps=STEPS, per_device_train_batch_size=PAIRS, learning_rate=1e-3, lr_scheduler_type="constant",
        warmup_steps=0, weight_decay=0.0, max_grad_norm=1.0, beta=0.1, adam_beta2=0.999, adam_epsilon=1e-8, max_length=64,
        logging_steps=1, report_to="none", save_strategy="no", use_cpu=True, bf16=False, gradient_checkpointing=False),
        train_dataset=Dataset.from_list(pairs), processing_class=tokenizer)
    trainer.train()
(OUT / "losses.json").write_text(json.dumps(losses) + "\n")
print(losses[:5], losses[-5:])
