#!/usr/bin/env python3
"""Golden vectors of a tiny BERT by sentence-transformers + transformers: every pooling, normalized or not.

Run from the root of the repository with the oracle's Python: `python dev/golden/embeddings.py` writes
tests/golden/embeddings/bert.json. Weights are functions of their names (families.py), so the file holds none. With
`--check TERN` it makes the model's directory, lets that program embed the texts, by --output read with numpy too, and
compares. Nothing here runs at build or test time.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import torch
import transformers as T
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers import models as M

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from families import middle_of, values  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = ROOT / "tests" / "golden" / "embeddings" / "bert.json"
TOKENIZER = ROOT / "tests" / "golden" / "tokenizers" / "families" / "bert_uncased.json"
WIDTH = 32
TEXTS = ["A cat sat on the mat.", "the CAT sat", "", "Größe, naïve café", "one two three four five six seven eight nine ten",
         "何か unknown ☃", "numbers 3.14159 and 2,718", "x"]
# sentence-transformers' name, tern's, normalized, the file's old or new form
CASES = [("mean", "mean", True, "new"), ("mean", "mean", False, "old"), ("cls", "cls", True, "old"), ("max", "max", False, "new"),
         ("mean_sqrt_len_tokens", "mean-sqrt", False, "old"), ("weightedmean", "weighted-mean", True, "new"),
         ("lasttoken", "last", False, "old")]
OLD = {"mean": "pooling_mode_mean_tokens", "cls": "pooling_mode_cls_token", "mean_sqrt_len_tokens": "pooling_mode_mean_sqrt_len_tokens",
       "lasttoken": "pooling_mode_lasttoken", "max": "pooling_mode_max_tokens"}


def make_directory(folder):
    tokenizer = T.BertTokenizerFast(tokenizer_file=str(TOKENIZER))
    config = T.BertConfig(vocab_size=len(tokenizer), hidden_size=WIDTH, num_hidden_layers=2, num_attention_heads=4,
                          intermediate_size=40, max_position_embeddings=64)
    T.BertModel(config).save_pretrained(folder)
    path = pathlib.Path(folder) / "model.safetensors"
    tensors = {k: values(k, tuple(t.shape), middle_of(k, t.shape, "bert"), 0.35) for k, t in load_file(path).items()}
    save_file(tensors, path, metadata={"format": "pt"})
    tokenizer.save_pretrained(folder)
    # the file of the goldens, whatever the class made of it
    (pathlib.Path(folder) / "tokenizer.json").write_text(TOKENIZER.read_text())
    return json.loads((pathlib.Path(folder) / "config.json").read_text()), tensors


def pooling_config(mode, form):
    if form == "new":
        return {"embedding_dimension": WIDTH, "pooling_mode": mode, "include_prompt": True}
    return {"word_embedding_dimension": WIDTH, **{key: name == mode for name, key in OLD.items()}}


def modules(normalize):
    kinds = ["Transformer", "Pooling"] + ["Normalize"] * normalize
    return [{"idx": i, "name": str(i), "path": "" if i == 0 else f"{i}_{kind}", "type": f"sentence_transformers.models.{kind}"}
            for i, kind in enumerate(kinds)]


def numbers(rows):
    return [[float(f"{x:.8g}") for x in row] for row in rows]


def make():
    with tempfile.TemporaryDirectory() as folder:
        config, tensors = make_directory(folder)
        cases = []
        for mode, ours, normalize, form in CASES:
            parts = [M.Transformer(folder), M.Pooling(WIDTH, mode)] + [M.Normalize()] * normalize
            vectors = SentenceTransformer(modules=parts, device="cpu").encode(TEXTS, batch_size=3)
            cases.append({"pooling": ours, "normalize": normalize, "modules": modules(normalize),
                          "pooling_config": pooling_config(mode, form), "vectors": numbers(vectors)})
        model, tokenizer = T.BertModel.from_pretrained(folder).eval(), T.AutoTokenizer.from_pretrained(folder)
        with torch.no_grad():
            pooled = [model(**tokenizer(text, return_tensors="pt")).pooler_output[0].tolist() for text in TEXTS]
        ids = [tokenizer(text)["input_ids"] for text in TEXTS]
    golden = {"config": config, "texts": TEXTS, "ids": ids, "cases": cases, "pooler": numbers(pooled),
              "tensors": {k: {"shape": list(t.shape), "middle": middle_of(k, t.shape, "bert"), "spread": 0.35}
                          for k, t in tensors.items()}}
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps(golden, sort_keys=True) + "\n")
    print(OUT.stat().st_size, "bytes")


def check(program):
    golden = json.loads(OUT.read_text())
    with tempfile.TemporaryDirectory() as folder:
        make_directory(folder)
        here = pathlib.Path(folder)
        (here / "texts.txt").write_text("\n".join(TEXTS) + "\n")
        for case in golden["cases"]:
            (here / "modules.json").write_text(json.dumps(case["modules"]))
            (here / "1_Pooling").mkdir(exist_ok=True)
            (here / "1_Pooling" / "config.json").write_text(json.dumps(case["pooling_config"]))
            (here / "v.npy").unlink(missing_ok=True)
            subprocess.run([program, "embed", folder, "--input", str(here / "texts.txt"), "--output", str(here / "v.npy"),
                            "--batch", "3"], check=True, stderr=subprocess.DEVNULL)
            got, want = np.load(here / "v.npy"), np.array(case["vectors"])
            error = np.linalg.norm(got - want, axis=1) / np.linalg.norm(want, axis=1)
            print(f"{case['pooling']:14} normalize {case['normalize']!s:5} {got.shape} {got.dtype} relative error {error.max():.2g}")
            assert error.max() < 1e-5


if __name__ == "__main__":
    check(sys.argv[2]) if sys.argv[1:2] == ["--check"] else make()
