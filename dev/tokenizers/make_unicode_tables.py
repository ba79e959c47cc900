#!/usr/bin/env python3
"""Writes formats/tokenizer/unicode_tables.cpp: the character classes as the reference libraries see them.

The regex engines of tokenizers and tiktoken know a newer Unicode than the distribution's Oniguruma and utf8proc, so ids
would differ on letters assigned since. Each class is asked of the reference, code point by code point.
Needs: tokenizers, tiktoken, sentencepiece, regex. Run in the root of the repository, output to that file. The list of characters that
normalization leaves alone (tokenizer_unicode.cpp) came from comparing both libraries' four forms over all code points.
"""
import io
import os
import tempfile

import regex
import sentencepiece
import tiktoken
from tokenizers import Regex, normalizers, pre_tokenizers
from transformers.convert_slow_tokenizer import import_protobuf

POINTS = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]
BLOCKS = ["".join(map(chr, POINTS[i : i + 4096])) for i in range(0, len(POINTS), 4096)]


def onig_class(pattern):
    split = pre_tokenizers.Split(Regex(pattern), "removed")
    left = {c for block in BLOCKS for piece, _ in split.pre_tokenize_str(block) for c in map(ord, piece)}
    return [c for c in POINTS if c not in left]


def rust_class(pattern):
    encoding = tiktoken.Encoding("x", pat_str=pattern, mergeable_ranks={bytes([i]): i for i in range(256)}, special_tokens={})
    return sorted({ord(c) for block in BLOCKS for c in bytes(encoding.encode_ordinary(block)).decode()})


def split_class(step):
    return [c for c in POINTS if len(step.pre_tokenize_str("a" + chr(c))) == 2]


def changed(normalizer):
    return {c: [ord(x) for x in normalizer.normalize_str(chr(c))] for c in POINTS if normalizer.normalize_str(chr(c)) != chr(c)}


def ranges(points):
    out = []
    for c in sorted(points):
        if out and out[-1][1] == c - 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return out


def bert(**flags):
    off = dict(clean_text=False, handle_chinese_chars=False, strip_accents=False, lowercase=False)
    return normalizers.BertNormalizer(**{**off, **flags})


def becomes(normalizer, text):
    return [c for c in POINTS if normalizer.normalize_str(chr(c)) == text(chr(c))]


def mapping_to_y(points):
    """A Precompiled normalizer that writes Y for each of the points. It replaces a cluster of up to five bytes as a
    whole when its first character is mapped: so clusters show."""
    with tempfile.TemporaryDirectory() as folder:
        rules = os.path.join(folder, "rules.tsv")
        with open(rules, "w") as f:
            f.writelines(f"{c:X}\t59\n" for c in points if c)
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(["a few words for a model"] * 20), model_writer=model, vocab_size=30, normalization_rule_tsv=rules,
            hard_vocab_limit=False, minloglevel=2)
    proto = import_protobuf().ModelProto()
    proto.ParseFromString(model.getvalue())
    return normalizers.Precompiled(proto.normalizer_spec.precompiled_charsmap)


def having(pattern):
    r = regex.compile(pattern)
    return [c for c in POINTS if r.match(chr(c))]


ACUTE, KA, VIRAMA, SIGN, ZWJ = "\u0301", "\u0915", "\u094d", "\u00a9", "\u200d"
few = mapping_to_y([ord("a"), ord(KA), ord(SIGN)])
joins = lambda n, before, c, after: n.normalize_str(before + chr(c) + after)
cluster_extend_or_spacing = [c for c in POINTS if joins(few, "a", c, "") == "Y" and chr(c) not in "a" + KA + SIGN]
cluster_extend = [c for c in cluster_extend_or_spacing if joins(few, SIGN, c, ZWJ + SIGN + ACUTE).endswith("Y" + ACUTE)]
candidates = having(r"\p{GCB=Prepend}")
n = mapping_to_y(candidates)
cluster_prepend = [c for c in candidates if len(chr(c).encode()) < 5 and joins(n, "", c, "a") == "Y"]
candidates = having(r"[\p{GCB=Control}\r\n]")
n = mapping_to_y(candidates)
cluster_control = [0] + [c for c in candidates if c and joins(n, "", c, ACUTE if len(chr(c).encode()) < 4 else "\u0301") == "Y" + ACUTE]
candidates = having(r"\p{Extended_Pictographic}")
pictographic = [c for c in candidates if joins(few, "", c, ZWJ + SIGN + ACUTE).endswith("Y" + ACUTE)]
candidates = having(r"\p{InCB=Consonant}")
n = mapping_to_y(candidates + [ord(KA)])
conjunct_consonant = [c for c in candidates if joins(n, KA + VIRAMA, c, ACUTE).endswith("Y" + ACUTE)]
conjunct_linker = [c for c in having(r"\p{InCB=Linker}") if joins(few, KA, c, KA + ACUTE).endswith("Y" + ACUTE)]
conjunct_extend = [c for c in cluster_extend_or_spacing if joins(few, KA + VIRAMA, c, KA + ACUTE).endswith("Y" + ACUTE)]

CLASSES = [
    ("letter", onig_class(r"\p{L}")),
    ("upper", onig_class(r"\p{Lu}")),
    ("lower", onig_class(r"\p{Ll}")),
    ("title", onig_class(r"\p{Lt}")),
    ("modifier", onig_class(r"\p{Lm}")),
    ("other_letter", onig_class(r"\p{Lo}")),
    ("mark", onig_class(r"\p{M}")),
    ("number", onig_class(r"\p{N}")),
    ("digit", onig_class(r"\p{Nd}")),
    ("punctuation", onig_class(r"\p{P}")),
    ("symbol", onig_class(r"\p{S}")),
    ("han", onig_class(r"\p{Han}")),
    ("space", onig_class(r"\s")),
    ("word", rust_class(r"\w")),
    ("numeric", split_class(pre_tokenizers.Digits(True))),
    ("punctuation_step", split_class(pre_tokenizers.Punctuation())),
    ("accent", changed(normalizers.StripAccents())),
    ("bert_removed", becomes(bert(clean_text=True), lambda c: "")),
    ("bert_space", becomes(bert(clean_text=True), lambda c: " ")),
    ("bert_alone", becomes(bert(handle_chinese_chars=True), lambda c: f" {c} ")),
    ("bert_accent", becomes(bert(strip_accents=True), lambda c: "")),
    ("cluster_mark", cluster_extend_or_spacing),
    ("cluster_extend", cluster_extend),
    ("cluster_prepend", cluster_prepend),
    ("cluster_control", cluster_control),
    ("pictographic", pictographic),
    ("conjunct_consonant", conjunct_consonant),
    ("conjunct_linker", conjunct_linker),
    ("conjunct_extend", conjunct_extend),
]

print("// Generated by dev/tokenizers/make_unicode_tables.py from what the reference libraries answer; do not edit.")
print('#include "formats/tokenizer/unicode.h"\n\nnamespace tern {\n\nnamespace {\n')
print("// clang-format off")
for name, points in CLASSES:
    r = ranges(points)
    print(f"constexpr CodeRange k_{name}[] = {{")
    line = " "
    for a, b in r:
        item = f"{{{a:#x},{b:#x}}},"
        if len(line) + len(item) > 118:
            print(line)
            line = " "
        line += item
    print(line + "};")
lower = changed(normalizers.Lowercase())
print("constexpr CodeMap k_lowercase[] = {")
line = " "
for c, to in lower.items():
    assert len(to) <= 2
    item = f"{{{c:#x},{to[0]:#x},{to[1] if len(to) == 2 else 0:#x}}},"
    if len(line) + len(item) > 118:
        print(line)
        line = " "
    line += item
print(line + "};")
print("// clang-format on\n\n}  // namespace\n")
print("// Longer than a screen: a table, one row per class.")
print("std::span<const CodeRange> code_ranges(CharClass c) {\n  switch (c) {")
for name, _ in CLASSES:
    print(f"    case CharClass::{name}: return k_{name};")
print("  }\n  return {};\n}\n")
print("std::span<const CodeMap> lowercase_map() { return k_lowercase; }\n\n}  // namespace tern")
