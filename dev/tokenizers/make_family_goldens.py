#!/usr/bin/env python3
"""Writes tests/golden/tokenizers/families/: one small tokenizer per set of components that a family of models uses,
trained by the reference library, and the hashes of its ids on the 20,000 parity strings.

Usage, in the root of the repository:  dev/tokenizers/make_family_goldens.py TEXT [NAME…]
TEXT is freely licensed text to train on, as for make_goldens.py. NAMEs: only these.
Needs: tokenizers, sentencepiece, transformers (for its protocol buffer).
"""
import io
import json
import os
import sys
import tempfile

sys.path.insert(0, os.path.dirname(__file__))
from strings import Lcg, block_hashes, load_alphabet, strings

import sentencepiece
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers.convert_slow_tokenizer import import_protobuf

OUT = "tests/golden/tokenizers/families"
text = open(sys.argv[1], encoding="utf-8").read()[:400000].split("\n%\n")
alphabet = load_alphabet("tests/golden/tokenizers/alphabet.json")
ALL = list(strings(alphabet))
SAMPLE = text + ALL[:3000:3]  # some of every script
FEW = text + alphabet["words"] * 3  # Unigram's trainer wants room for every character
BYTES = pre_tokenizers.ByteLevel.alphabet()
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
QWEN2 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
CL100K = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"
O200K = "|".join([
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n/]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])
DEEPSEEK = r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
BLOOM = r" ?[^(\s|[.,!?…。，、।۔،])]+"
SPECIAL = lambda s: AddedToken(s, special=True, normalized=False)


def charsmap(rules):
    """Compiled normalization rules: [(from, to)]."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "rules.tsv")
        with open(path, "w") as f:
            for a, b in rules:
                f.write(" ".join(f"{ord(c):X}" for c in a) + "\t" + " ".join(f"{ord(c):X}" for c in b) + "\n")
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(["a few words for a model"] * 20), model_writer=model, vocab_size=30,
                                                 normalization_rule_tsv=path, hard_vocab_limit=False, minloglevel=2)
    proto = import_protobuf().ModelProto()
    proto.ParseFromString(model.getvalue())
    return proto.normalizer_spec.precompiled_charsmap


# Some of nmt_nfkc's rules: spaces, controls that go, ligatures, full-width forms, fractions, composition, Hangul.
RULES = [("\t", " "), ("\n", " "), ("\r", " "), ("\u00a0", " "), ("\u3000", " "), ("\u2028", " "), ("\u200b", " "), ("\ufeff", ""), ("\u0001", ""),
         ("\u007f", ""), ("ﬁ", "fi"), ("ﬂ", "fl"), ("½", "1⁄2"), ("²", "2"), ("①", "1"), ("Ⅷ", "VIII"), ("…", "..."), ("e\u0301", "é"),
         ("A\u030a", "Å"), ("Å", "Å"), ("が", "が"), ("\u0344", "\u0308\u0301"), ("ſ", "s"), ("İ", "I\u0307"), ("ｶﾞ", "ガ"), ("ﷺ", "صلى الله عليه وسلم")]
RULES += [(chr(c), chr(c - 0xFEE0)) for c in range(0xFF01, 0xFF5F)] + [(chr(c), "") for c in range(0x600, 0x606)]
RULES += [("\u2103", "°C"), ("™", "TM"), ("🄰", "(A)"), ("ª", "a"), ("©", "(c)"), ("क़", "क़"), ("\u1160", ""), ("ㄱ", "ᄀ")]
CHARSMAP = charsmap(sorted({(a, b) for a, b in RULES if a != b}))


def bpe(t, size, specials=(), byte_level=True, **more):
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=list(specials), initial_alphabet=BYTES if byte_level else [], min_frequency=2,
                                  limit_alphabet=300, show_progress=False, **more)
    t.train_from_iterator(SAMPLE, trainer)
    return t


def byte_level_bpe(pre, specials, size=620, **model):
    t = Tokenizer(models.BPE(**model))
    t.pre_tokenizer = pre if isinstance(pre, pre_tokenizers.PreTokenizer) else pre_tokenizers.Sequence(pre)
    t.decoder = decoders.ByteLevel()
    return bpe(t, size, specials)


def split(pattern, behavior="isolated", invert=False):
    return pre_tokenizers.Split(Regex(pattern), behavior, invert)


SPELL = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)


def unigram(t, size, specials, unk="<unk>", **more):
    trainer = trainers.UnigramTrainer(vocab_size=size, special_tokens=specials, unk_token=unk, show_progress=False, **more)
    t.train_from_iterator(FEW, trainer)
    return t


def with_model(t, **changes):
    j = json.loads(t.to_str())
    j["model"].update(changes)
    return Tokenizer.from_str(json.dumps(j))


def word_piece(t, size, specials, **more):
    t.train_from_iterator(SAMPLE, trainers.WordPieceTrainer(vocab_size=size, special_tokens=specials, limit_alphabet=300, show_progress=False, **more))
    return t


def bert_uncased():
    t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.normalizer = normalizers.BertNormalizer()
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.decoder = decoders.WordPiece()
    word_piece(t, 700, ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    t.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    return t


def bert_cased():
    t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.normalizer = normalizers.BertNormalizer(lowercase=False)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.decoder = decoders.WordPiece(prefix="##", cleanup=False)
    word_piece(t, 600, ["[PAD]", "[UNK]", "[CLS]", "[SEP]"])
    t.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return with_model(t, max_input_chars_per_word=12)


def word_piece_parts():
    t = Tokenizer(models.WordPiece(unk_token="?", continuing_subword_prefix="+"))
    t.normalizer = normalizers.Sequence([normalizers.Nmt(), normalizers.BertNormalizer(clean_text=False, handle_chinese_chars=False, strip_accents=True, lowercase=False)])
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.CharDelimiterSplit("-"), pre_tokenizers.Digits(True), pre_tokenizers.Punctuation("merged_with_next")])
    t.decoder = decoders.Sequence([decoders.WordPiece(prefix="+"), decoders.CTC(pad_token="<pad>", word_delimiter_token="e", cleanup=True)])
    word_piece(t, 600, ["?", "<pad>"], continuing_subword_prefix="+")
    t.add_tokens([AddedToken("world", single_word=True), AddedToken("Hello", lstrip=True, rstrip=True)])
    return t


def t5_like():
    t = Tokenizer(models.Unigram())
    t.normalizer = normalizers.Sequence([normalizers.Precompiled(CHARSMAP), normalizers.Strip(left=False, right=True), normalizers.Replace(Regex(" {2,}"), "▁")])
    t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    t.decoder = decoders.Metaspace()
    unigram(t, 700, ["<pad>", "</s>", "<unk>"])
    t.post_processor = processors.TemplateProcessing(single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)])
    return t


def xlmr_like():
    t = Tokenizer(models.Unigram())
    t.normalizer = normalizers.Precompiled(CHARSMAP)
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    t.decoder = decoders.Metaspace()
    unigram(t, 600, ["<s>", "<pad>", "</s>", "<unk>"])
    t.add_special_tokens([AddedToken("<mask>", lstrip=True)])
    t.post_processor = processors.TemplateProcessing(single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)])
    return t


def albert_like():
    t = Tokenizer(models.Unigram())
    t.normalizer = normalizers.Sequence([normalizers.Replace("``", '"'), normalizers.Replace("''", '"'), normalizers.NFKD(), normalizers.StripAccents(),
                                         normalizers.Lowercase(), normalizers.Precompiled(CHARSMAP), normalizers.Replace(Regex(" {2,}"), " ")])
    t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    t.decoder = decoders.Metaspace(prepend_scheme="first")
    return unigram(t, 600, ["<pad>", "<unk>", "[CLS]", "[SEP]"])


def unigram_bytes():
    t = Tokenizer(models.Unigram())
    t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    unigram(t, 500, ["<unk>", "<s>", "</s>"])
    j = json.loads(t.to_str())
    j["model"]["vocab"] += [[f"<0x{b:02X}>", 0] for b in range(256)]
    j["model"]["byte_fallback"] = True
    return Tokenizer.from_str(json.dumps(j))


def bloom_like():
    t = byte_level_bpe([split(BLOOM), SPELL], ["<unk>", "<s>", "</s>", "<pad>"])
    t.decoder = decoders.ByteLevel(add_prefix_space=True, trim_offsets=False)
    return t


def falcon_like():
    return byte_level_bpe([pre_tokenizers.Punctuation("contiguous"), pre_tokenizers.ByteLevel(add_prefix_space=False), pre_tokenizers.Digits(False),
                           split("[0-9][0-9][0-9]")], [">>TITLE<<", "<|endoftext|>"])


def neox_like():
    t = Tokenizer(models.BPE())
    t.normalizer = normalizers.NFC()
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    bpe(t, 620, ["<|endoftext|>", "<|padding|>"])
    t.add_tokens([AddedToken(" " * n, normalized=True) for n in range(8, 1, -1)])
    t.post_processor = processors.TemplateProcessing(single="$A", pair="$A $B", special_tokens=[])
    return t


def roberta_like():
    t = byte_level_bpe(pre_tokenizers.ByteLevel(add_prefix_space=True), ["<s>", "<pad>", "</s>", "<unk>"])
    t.add_special_tokens([AddedToken("<mask>", lstrip=True)])
    t.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), True, True)
    return t


def smollm_like():
    return byte_level_bpe([pre_tokenizers.Digits(True), pre_tokenizers.ByteLevel(add_prefix_space=False)], ["<|endoftext|>", "<|im_start|>", "<|im_end|>"])


def qwen2_like():
    t = byte_level_bpe([split(QWEN2), SPELL], ["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    t.normalizer = normalizers.NFC()
    return t


def olmo2_like():
    return byte_level_bpe([split(CL100K), SPELL], ["<|endoftext|>"])


def o200k_like():
    return byte_level_bpe([split(O200K), SPELL], ["<|endoftext|>"])


def deepseek_like():
    t = byte_level_bpe([split(r"\p{N}{1,3}"), split(r"[一-龥぀-ゟ゠-ヿ]+"), split(DEEPSEEK), SPELL], ["<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>"])
    t.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), processors.TemplateProcessing(
        single="<｜begin▁of▁sentence｜> $A", pair="$A $B", special_tokens=[("<｜begin▁of▁sentence｜>", 0)])])
    return t


def deepseek_v2_like():
    """The chat models' first splits: newlines, letters with what stands before them, punctuation, spaces at the end."""
    return byte_level_bpe([split(r"[\r\n]"), split(r"\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-Ⴥ]+"), split(r"\s?[!-/:-~！-／：-～‘-‟　-。]+"),
                           split(r"\s+$"), split(r"[一-龥ࠀ-一가-퟿]+"), pre_tokenizers.Digits(True), SPELL], ["<｜begin▁of▁sentence｜>"])


def gemma_like():
    t = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    t.normalizer = normalizers.Replace(" ", "▁")
    t.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    bpe(t, 800, ["<pad>", "<eos>", "<bos>", "<unk>"] + [f"<0x{b:02X}>" for b in range(256)], byte_level=False)
    j = json.loads(t.to_str())
    j["added_tokens"] = [a for a in j["added_tokens"] if not a["content"].startswith("<0x")]
    t = Tokenizer.from_str(json.dumps(j))
    t.add_tokens([AddedToken("\n" * n, normalized=False) for n in range(2, 6)] + [AddedToken("▁" * n, normalized=False) for n in range(2, 6)])
    t.post_processor = processors.TemplateProcessing(single="<bos> $A", pair="<bos> $A <bos> $B", special_tokens=[("<bos>", 2)])
    return t


def mistral_like():
    """Metaspace instead of normalizers, as newer conversions of SentencePiece models have it."""
    t = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    bpe(t, 800, ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)], byte_level=False)
    j = json.loads(t.to_str())
    j["added_tokens"] = [a for a in j["added_tokens"] if not a["content"].startswith("<0x")]
    t = Tokenizer.from_str(json.dumps(j))
    t.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)])
    return t


FAMILIES = [bert_uncased, bert_cased, word_piece_parts, t5_like, xlmr_like, albert_like, unigram_bytes, bloom_like, falcon_like, neox_like, roberta_like,
            smollm_like, qwen2_like, olmo2_like, o200k_like, deepseek_like, deepseek_v2_like, gemma_like, mistral_like]


def random_streams(size, count=1000):
    rng = Lcg(7)
    return [[rng.below(size) for _ in range(1 + rng.below(24))] for _ in range(count)]


os.makedirs(OUT, exist_ok=True)
for make in FAMILIES:
    name = make.__name__
    if len(sys.argv) > 2 and name not in sys.argv[2:]:
        continue
    path = f"{OUT}/{name}.json"
    with open(path, "w", encoding="utf-8") as f:
        f.write(make().to_str(pretty=False) + "\n")
    t = Tokenizer.from_file(path)
    ids = [t.encode(s).ids for s in ALL]
    value = {"ids": block_hashes(ids), "decoded": block_hashes((t.decode(x, skip_special_tokens=False).encode() for x in random_streams(t.get_vocab_size())), 100),
             "first": ids[:12]}
    with open(f"{OUT}/{name}.ids.json", "w", encoding="utf-8") as f:
        json.dump(value, f, separators=(",", ":"))
        f.write("\n")
    print(name, t.get_vocab_size(), os.path.getsize(path), sum(map(len, ids)), value["ids"][0])
