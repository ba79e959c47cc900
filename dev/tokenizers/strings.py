"""The 20,000 mixed strings of the tokenizer parity tests; tests/parity_strings.h makes the same ones.

Everything random comes from one 64-bit linear congruential generator, everything else from alphabet.json, so both
languages make the same bytes.
"""
import json

COUNT, BLOCK, SEED = 20000, 500, 20261121
MASK = (1 << 64) - 1


class Lcg:
    def __init__(self, seed):
        self.state = (seed * 0x9E3779B97F4A7C15 + 1) & MASK

    def below(self, n):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) & MASK
        return (self.state >> 33) % n


def load_alphabet(path):
    with open(path, encoding="utf-8") as f:
        return json.load(f)


def pick_range(rng, r):
    return chr(r[0] + rng.below(r[1] - r[0] + 1))


def any_point(rng):
    c = rng.below(0x110000 - 0x800)
    return chr(c if c < 0xD800 else c + 0x800)


def part(rng, kind, a):
    """One piece of text of the given kind, 0 to 11."""
    if kind == 0:  # one character of the basic plane
        c = rng.below(0x10000 - 0x800)
        return chr(c if c < 0xD800 else c + 0x800)
    if kind == 1:  # one Unicode category
        category = a["categories"][rng.below(len(a["categories"]))]
        return "".join(pick_range(rng, category[rng.below(len(category))]) for _ in range(1 + rng.below(8)))
    if kind == 2:  # all of them
        out = ""
        for _ in range(1 + rng.below(16)):
            category = a["categories"][rng.below(len(a["categories"]))]
            out += pick_range(rng, category[rng.below(len(category))])
        return out
    if kind == 3:  # emoji
        return "".join(a["emoji"][rng.below(len(a["emoji"]))] for _ in range(1 + rng.below(4)))
    if kind == 4:  # white space between words
        out = ""
        for _ in range(1 + rng.below(6)):
            for _ in range(rng.below(5)):
                out += a["spaces"][rng.below(len(a["spaces"]))]
            out += a["words"][rng.below(len(a["words"]))]
        for _ in range(rng.below(4)):
            out += a["spaces"][rng.below(len(a["spaces"]))]
        return out
    if kind == 5:  # numbers
        out = ""
        for _ in range(1 + rng.below(5)):
            for _ in range(1 + rng.below(9)):
                out += chr(48 + rng.below(10))
            out += a["separators"][rng.below(len(a["separators"]))]
        return out
    if kind == 6:  # code
        return "".join(a["code"][rng.below(len(a["code"]))] for _ in range(1 + rng.below(6)))
    if kind == 7:  # one script
        script = a["scripts"][rng.below(len(a["scripts"]))]
        words = []
        for _ in range(1 + rng.below(8)):
            words.append("".join(pick_range(rng, script[rng.below(len(script))]) for _ in range(1 + rng.below(9))))
        return " ".join(words)
    if kind == 8:  # a long word
        n = 60 + rng.below(400)
        if rng.below(2) == 0:
            return chr(97 + rng.below(26)) * n
        return "".join(chr(97 + rng.below(26)) for _ in range(n))
    if kind == 9:  # special tokens' text
        out = ""
        for _ in range(1 + rng.below(4)):
            out += a["specials"][rng.below(len(a["specials"]))]
            if rng.below(2) == 0:
                out += a["words"][rng.below(len(a["words"]))]
            if rng.below(3) == 0:
                out += " "
        return out
    if kind == 10:  # prose
        out = ""
        for _ in range(1 + rng.below(12)):
            word = a["words"][rng.below(len(a["words"]))]
            how = rng.below(6)
            out += word.upper() if how == 0 and word.isascii() else word
            out += a["endings"][rng.below(len(a["endings"]))]
        return out
    return "".join(any_point(rng) for _ in range(1 + rng.below(12)))  # anything


def strings(alphabet, count=COUNT, seed=SEED):
    rng = Lcg(seed)
    for i in range(count):
        if i % 4 != 3:
            yield part(rng, i % 12, alphabet)
        else:
            yield "".join(part(rng, rng.below(12), alphabet) for _ in range(2 + rng.below(3)))


class BlockHash:
    def __init__(self):
        self.value = 0xCBF29CE484222325

    def add(self, n):
        self.value = ((self.value ^ (n & 0xFFFFFFFF)) * 0x100000001B3) & MASK

    def hex(self):
        return f"{self.value:016x}"


def block_hashes(lists, block=BLOCK):
    """Hashes of number lists, one per block; -1 ends each list."""
    out, h, n = [], BlockHash(), 0
    for numbers in lists:
        for x in numbers:
            h.add(x)
        h.add(-1)
        n += 1
        if n % block == 0:
            out.append(h.hex())
            h = BlockHash()
    return out
