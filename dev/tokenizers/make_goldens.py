#!/usr/bin/env python3
"""Writes tests/golden/tokenizers/: small tokenizers trained by the reference library, and hashes of the reference ids.

Usage, in the root of the repository:  dev/tokenizers/make_goldens.py TEXT [DATA]
TEXT is freely licensed text to train on (the concatenated files of Debian's fortunes, say); DATA the folder that
TERN_DATA names: with it the hashes for GPT-2, Llama 2 and Llama 3 are written too.
Needs: tokenizers, tiktoken.
"""
import json
import os
import sys

sys.path.insert(0, os.path.dirname(__file__))
from strings import Lcg, block_hashes, load_alphabet, strings

import tiktoken
from tiktoken.load import load_tiktoken_bpe
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

OUT = "tests/golden/tokenizers"
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
text = open(sys.argv[1], encoding="utf-8").read()[:400000]
alphabet = load_alphabet(f"{OUT}/alphabet.json")
ALL = list(strings(alphabet))


def train(tokenizer, size, specials, alphabet_=None):
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=specials, initial_alphabet=alphabet_ or [], min_frequency=2, show_progress=False)
    tokenizer.train_from_iterator(text.split("\n%\n"), trainer)
    return tokenizer


def byte_level():
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    t.decoder = decoders.ByteLevel()
    train(t, 700, ["<|endoftext|>"], pre_tokenizers.ByteLevel.alphabet())
    t.add_tokens([AddedToken("tern", single_word=True), AddedToken("<mask>", lstrip=True, special=True), AddedToken("<pad>", rstrip=True, special=True)])
    t.post_processor = processors.ByteLevel(trim_offsets=True)
    return t


def llama3_like():
    t = Tokenizer(models.BPE(ignore_merges=True))
    t.normalizer = normalizers.NFC()
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(LLAMA3), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    train(t, 800, ["<|begin_of_text|>", "<|eot_id|>"], pre_tokenizers.ByteLevel.alphabet())
    t.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), processors.TemplateProcessing(single="<|begin_of_text|> $A", pair="$A $B", special_tokens=[("<|begin_of_text|>", 0)])])
    return t


def sentencepiece_like():
    t = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    train(t, 900, ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)])
    j = json.loads(t.to_str())
    j["added_tokens"] = [a for a in j["added_tokens"] if not a["content"].startswith("<0x")]
    t = Tokenizer.from_str(json.dumps(j))
    t.post_processor = processors.TemplateProcessing(single="<s> $A </s>", pair="$A $B", special_tokens=[("<s>", 1), ("</s>", 2)])
    return t


def metaspace():
    t = Tokenizer(models.BPE(unk_token="<unk>"))
    t.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Strip(), normalizers.Lowercase()])
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Metaspace(prepend_scheme="first"), pre_tokenizers.Digits(True), pre_tokenizers.Punctuation("contiguous")])
    t.decoder = decoders.Metaspace()
    train(t, 600, ["<unk>", "<s>", "</s>", "[SEP]"])
    t.add_tokens([AddedToken("tokenization"), AddedToken("Hello", normalized=True)])
    return t


def splits():
    t = Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"))
    t.normalizer = normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents(), normalizers.Replace(Regex(r"\s+"), " ")])
    t.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Whitespace(),
        pre_tokenizers.Split(Regex(r"[\p{Lu}][\p{Ll}]*"), "merged_with_previous"),
        pre_tokenizers.Split("-", "merged_with_next"),
        pre_tokenizers.Split(Regex(r"\p{N}+"), "removed", invert=False),
    ])
    t.decoder = decoders.BPEDecoder("</w>")
    trainer = trainers.BpeTrainer(vocab_size=600, special_tokens=["<unk>"], end_of_word_suffix="</w>", min_frequency=2, show_progress=False)
    t.train_from_iterator(text.split("\n%\n"), trainer)
    return t


def random_streams(size, count=1000):
    rng = Lcg(7)
    return [[rng.below(size) for _ in range(1 + rng.below(24))] for _ in range(count)]


def write(path, value):
    with open(path, "w", encoding="utf-8") as f:
        json.dump(value, f, indent=0, ensure_ascii=True)
        f.write("\n")


def golden(name, encode, decode=None, size=0):
    value = {"ids": block_hashes(encode(s) for s in ALL)}
    if decode:
        value["decoded"] = block_hashes((decode(x).encode() for x in random_streams(size)), 100)
    value["first"] = [encode(s) for s in ALL[:24]]
    write(f"{OUT}/{name}.ids.json", value)
    print(name, value["ids"][0])


write(f"{OUT}/strings.json", {"blocks": block_hashes(s.encode() for s in ALL), "first": ALL[:24]})
for make in (byte_level, llama3_like, sentencepiece_like, metaspace, splits):
    name = make.__name__
    t = make()
    os.makedirs(f"{OUT}/{name}", exist_ok=True)
    with open(f"{OUT}/{name}/tokenizer.json", "w", encoding="utf-8") as f:
        f.write(t.to_str(pretty=False) + "\n")
    t = Tokenizer.from_file(f"{OUT}/{name}/tokenizer.json")
    golden(name, lambda s: t.encode(s).ids, lambda x: t.decode(x, skip_special_tokens=False), t.get_vocab_size())

# What the trainer learns from the parity strings (special tokens' text left out).
for name, step in (("gpt2", pre_tokenizers.ByteLevel(add_prefix_space=False)),
                   ("llama3", pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(LLAMA3), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]))):
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = step
    t.train_from_iterator([s for s in ALL[:6000] if "<|endoftext|>" not in s], trainers.BpeTrainer(
        vocab_size=1200, special_tokens=["<|endoftext|>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), min_frequency=2, show_progress=False))
    merges = json.loads(t.to_str())["model"]["merges"]
    write(f"{OUT}/trained_{name}.json", {"merges": block_hashes(([t.token_to_id(a), t.token_to_id(b)] for a, b in merges), 1)[:1200]})

if len(sys.argv) > 2:
    data = sys.argv[2] + "/tokenizers"
    g = Tokenizer(models.BPE.from_file(f"{data}/gpt2/vocab.json", f"{data}/gpt2/merges.txt"))
    g.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    g.decoder = decoders.ByteLevel()
    g.add_special_tokens(["<|endoftext|>"])
    golden("gpt2", lambda s: g.encode(s).ids, lambda x: g.decode(x, skip_special_tokens=False), g.get_vocab_size())
    l2 = Tokenizer.from_file(f"{data}/llama2/tokenizer.json")
    # Ids 0 to 2 are left out of the streams: tokenizers 0.23 writes them in normalized form (see tokenizer_load.cpp).
    golden("llama2", lambda s: l2.encode(s).ids, lambda x: l2.decode([max(3, i) for i in x], skip_special_tokens=False), l2.get_vocab_size())
    ranks = load_tiktoken_bpe(f"{data}/llama3/tokenizer.model")
    names = ["<|begin_of_text|>", "<|end_of_text|>"] + [f"<|reserved_special_token_{i}|>" for i in range(4)]
    names += ["<|start_header_id|>", "<|end_header_id|>", "<|reserved_special_token_4|>", "<|eot_id|>"]
    names += [f"<|reserved_special_token_{i}|>" for i in range(5, 251)]
    l3 = tiktoken.Encoding("llama3", pat_str=LLAMA3, mergeable_ranks=ranks, special_tokens={n: len(ranks) + i for i, n in enumerate(names)})
    golden("llama3", lambda s: l3.encode(s, allowed_special="all"), lambda x: l3.decode(x), l3.n_vocab)
