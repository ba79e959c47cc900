#!/usr/bin/env python3
"""Writes tests/golden/tokenizers/sentencepiece/: small SentencePiece models and the hashes of the library's ids on the
20,000 parity strings.

Usage, in the root of the repository:  dev/tokenizers/make_sentencepiece_goldens.py TEXT [DATA]
TEXT is freely licensed text to train on, as for make_goldens.py; with DATA (the folder that TERN_DATA names) the hashes
for Llama 2's own model are written too. Needs: sentencepiece.
"""
import io
import json
import os
import sys
import tempfile

sys.path.insert(0, os.path.dirname(__file__))
from strings import block_hashes, load_alphabet, strings

import sentencepiece

OUT = "tests/golden/tokenizers/sentencepiece"
text = [line for line in open(sys.argv[1], encoding="utf-8").read()[:300000].split("\n") if line.strip() and line != "%"]
alphabet = load_alphabet("tests/golden/tokenizers/alphabet.json")
ALL = list(strings(alphabet))
FEW = text + [w for w in alphabet["words"] if "\u2581" not in w] * 5
RULES = [("\t", " "), ("\n", " "), ("\u00a0", " "), ("\u3000", " "), ("\ufeff", ""), ("ﬁ", "fi"), ("½", "1/2"), ("²", "2"), ("…", "..."), ("e\u0301", "é"),
         ("A\u030a", "Å"), ("ſ", "s"), ("©", "(c)"), ("...", "…"), ("!!", "!"), ("٣", "3 "), (" -", "-")]
RULES += [(chr(c), chr(c - 0xFEE0)) for c in range(0xFF01, 0xFF5F)]


def train(name, rules=False, **options):
    with tempfile.TemporaryDirectory() as folder:
        if rules:
            options["normalization_rule_tsv"] = os.path.join(folder, "rules.tsv")
            with open(options["normalization_rule_tsv"], "w") as f:
                for a, b in RULES:
                    f.write(" ".join(f"{ord(c):X}" for c in a) + "\t" + " ".join(f"{ord(c):X}" for c in b) + "\n")
        else:
            options["normalization_rule_name"] = "identity"
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(FEW), model_writer=model, hard_vocab_limit=False, minloglevel=2, num_threads=1, **options)
    with open(f"{OUT}/{name}.model", "wb") as f:
        f.write(model.getvalue())
    golden(name, f"{OUT}/{name}.model")


def golden(name, path):
    sp = sentencepiece.SentencePieceProcessor(model_file=path)
    ids = [sp.encode(s) for s in ALL]
    with open(f"{OUT}/{name}.ids.json", "w", encoding="utf-8") as f:
        json.dump({"ids": block_hashes(ids), "first": ids[:12]}, f, separators=(",", ":"))
        f.write("\n")
    print(name, sp.vocab_size(), os.path.getsize(path), sum(map(len, ids)))


os.makedirs(OUT, exist_ok=True)
train("unigram_rules", rules=True, model_type="unigram", vocab_size=500)
train("unigram_bytes", model_type="unigram", vocab_size=700, byte_fallback=True, remove_extra_whitespaces=False, split_digits=True)
train("unigram_user", rules=True, model_type="unigram", vocab_size=500, user_defined_symbols=["tern", "<mask>", "ll", "!!"], control_symbols=["[SEP]"], treat_whitespace_as_suffix=True)
train("bpe_bytes", model_type="bpe", vocab_size=700, byte_fallback=True, remove_extra_whitespaces=False, allow_whitespace_only_pieces=True, split_digits=True)
train("bpe_rules", rules=True, model_type="bpe", vocab_size=500)
train("bpe_user", rules=True, model_type="bpe", vocab_size=500, user_defined_symbols=["tern", "<mask>", "ll", "!!"], control_symbols=["[SEP]"], add_dummy_prefix=False)
if len(sys.argv) > 2:
    golden("llama2", f"{sys.argv[2]}/tokenizers/llama2/tokenizer.model")
