#!/usr/bin/env python3
"""Random compositions of what tokenizer.json may be made of, and what the reference makes of a text with each.

    dev/tokenizers/compositions.py FILE.jsonl [--count 20000] [--seed 1]
    TERN_TOKENIZER_COMPOSITIONS=FILE.jsonl …/formats_test --gtest_filter='TokenizerCompositionsSlow.*'

Needs Hugging Face tokenizers (0.23). Each line has the tokenizer's json, a text, the reference's ids of it and their text; null where
the reference refuses the tokenizer, takes more than ten seconds or a gigabyte. Nothing of the output is kept in the repository."""
import argparse
import importlib
import json
import multiprocessing
import os
import random
import resource
import signal

PIECES = ["<unk>", "a", "b", "Ġ", "ab", "▁", "c", "1", ".", "Ã", "¤", "▁a", "##b", "ä", "A", "e", "é"]
TEXTS = ["", "a", "b", "ab", "aaaa", "(?=.)", "x*", "[ab]?", "(a|b)*", ".", "$", "\\b", " ", "\\s+", "[^a]", "1"]


def sequence(draw, name, one):
    return {"type": "Sequence", name: [one() for _ in range(draw.randrange(60 if draw.random() < 0.25 else 5))]}


class Maker:  # special tokens are not normalized: tokenizers 0.23 would decode them in their normalized spelling, transformers does not
    def __init__(self, draw):
        self.draw = draw

    def pick(self):
        return self.draw.choice(TEXTS)

    def literal(self):
        return self.draw.choice(["a", "b", "ab", " ", "▁", "1", "c", "ä"])

    def pattern(self):
        return {"Regex": self.pick()} if self.draw.random() < 0.5 else {"String": self.literal()}

    def replace(self):
        return {"type": "Replace", "pattern": self.pattern(), "content": self.pick() + ("a" * 3000 if self.draw.random() < 0.1 else "")}

    def normalizer(self):
        kind = self.draw.randrange(11)
        if kind == 0:
            return {"type": "Prepend", "prepend": self.literal() + ("b" * 40000 if self.draw.random() < 0.2 else "")}
        if kind < 6:
            return {"type": ["ByteLevel", "NFKD", "NFC", "Lowercase", "StripAccents"][kind - 1]}
        if kind == 6:
            return {"type": "Strip", "strip_left": self.draw.random() < 0.5, "strip_right": self.draw.random() < 0.5}
        if kind == 7:
            return {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": self.draw.random() < 0.5}
        return self.replace()

    def splitter(self):
        kind = self.draw.randrange(8)
        if kind == 0:
            return {"type": "ByteLevel", "add_prefix_space": self.draw.random() < 0.5, "trim_offsets": True, "use_regex": self.draw.random() < 0.5}
        if kind == 1:
            return {"type": "Metaspace", "replacement": "▁", "prepend_scheme": self.draw.choice(["always", "never", "first"]), "split": self.draw.random() < 0.5}
        if kind == 2:
            return {"type": "Digits", "individual_digits": self.draw.random() < 0.5}
        if kind == 3:
            return {"type": "Punctuation", "behavior": self.draw.choice(["Isolated", "Removed", "Contiguous", "MergedWithPrevious", "MergedWithNext"])}
        if kind == 4:
            return {"type": self.draw.choice(["Whitespace", "WhitespaceSplit", "BertPreTokenizer"])}
        return {"type": "Split", "pattern": self.pattern(), "behavior": self.draw.choice(["Isolated", "Removed", "Contiguous", "MergedWithPrevious", "MergedWithNext"]),
                "invert": self.draw.random() < 0.3}

    def decoder(self):
        kind = self.draw.randrange(9)
        if kind == 0:
            return {"type": "Fuse"}
        if kind == 1:
            return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
        if kind == 2:
            return {"type": "WordPiece", "prefix": "##", "cleanup": self.draw.random() < 0.5}
        if kind == 3:
            return {"type": "BPEDecoder", "suffix": self.literal()}
        if kind == 4:
            return {"type": "Metaspace", "replacement": "▁", "prepend_scheme": self.draw.choice(["always", "never", "first"]), "split": True}
        if kind == 5:
            return {"type": "Strip", "content": self.draw.choice([" ", "a"]), "start": self.draw.randrange(3), "stop": self.draw.randrange(3)}
        if kind == 6:
            return {"type": "ByteFallback"}
        return self.replace()

    def model(self):
        vocab = {piece: i for i, piece in enumerate(PIECES)}
        kind = self.draw.randrange(4)
        if kind == 0:
            return {"type": "Unigram", "unk_id": 0, "vocab": [[p, -1.0 - 0.5 * i] for i, p in enumerate(PIECES)], "byte_fallback": False}
        if kind == 1:
            return {"type": "WordPiece", "unk_token": "<unk>", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100, "vocab": vocab}
        return {"type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None, "end_of_word_suffix": None,
                "fuse_unk": self.draw.random() < 0.5, "byte_fallback": False, "ignore_merges": self.draw.random() < 0.3, "vocab": vocab,
                "merges": [["a", "b"], ["▁", "a"]]}

    def tokenizer(self):
        added = []
        for i in range(self.draw.randrange(3)):
            added.append({"id": len(PIECES) + i, "content": ["<x>", "aa"][i], "single_word": self.draw.random() < 0.3, "lstrip": self.draw.random() < 0.3,
                          "rstrip": self.draw.random() < 0.3, "normalized": self.draw.random() < 0.5 and i > 0, "special": i == 0})
        return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
                "normalizer": None if self.draw.random() < 0.2 else sequence(self.draw, "normalizers", self.normalizer),
                "pre_tokenizer": None if self.draw.random() < 0.2 else sequence(self.draw, "pretokenizers", self.splitter),
                "post_processor": None, "decoder": None if self.draw.random() < 0.2 else sequence(self.draw, "decoders", self.decoder),
                "model": self.model()}

    def text(self):
        parts = ["a", "b", "ab", " ", "  ", "1", "12", ".", "ä", "é", "<x>", "aa", "Ab", "\n", "c", "一", "▁"]
        return "".join(self.draw.choice(parts) for _ in range(self.draw.choice([1, 5, 20, 60, 1500])))


def case(number):
    seed, index = number
    make = Maker(random.Random(seed * 1_000_003 + index))
    made, text = json.dumps(make.tokenizer(), ensure_ascii=False), make.text()
    return {"tokenizer": made, "text": text}


def answer(given):
    from tokenizers import Tokenizer

    signal.alarm(10)  # ends the process where the reference takes longer
    try:
        tokenizer = Tokenizer.from_str(given["tokenizer"])
        ids = tokenizer.encode(given["text"], add_special_tokens=False).ids
        ids = ids if len(ids) <= 20000 else None
        return ids, None if ids is None else tokenizer.decode(ids, skip_special_tokens=False)
    except BaseException:  # a panic of the reference is one
        return None, None
    finally:
        signal.alarm(0)


def serve(pipe):
    os.environ["RUST_BACKTRACE"] = "0"  # of its panics, which would take most of the time
    resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
    while True:
        pipe.send(answer(pipe.recv()))


def main():
    parse = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parse.add_argument("file")
    parse.add_argument("--count", type=int, default=20000)
    parse.add_argument("--seed", type=int, default=1)
    asked = parse.parse_args()
    importlib.import_module("tokenizers")  # says so here where it is missing
    child = pipe = None
    accepted = 0
    with open(asked.file, "w") as out:
        for index in range(asked.count):
            given = case((asked.seed, index))
            if child is None:
                pipe, theirs = multiprocessing.Pipe()
                child = multiprocessing.Process(target=serve, args=(theirs,), daemon=True)
                child.start()
                theirs.close()
            pipe.send(given)
            try:
                ids, text = pipe.recv()
            except EOFError:
                ids = text = None
                child.join()
                child = None
            accepted += ids is not None
            out.write(json.dumps({**given, "ids": ids, "decoded": text}) + "\n")
    print(f"seed {asked.seed}: {asked.count} compositions, the reference takes {accepted}")


if __name__ == "__main__":
    main()
