"""Counts and hashes of the WikiText-2 conventions, as eval/windows_test.cpp expects them, by Python's own re.

usage: python dev/golden/wikitext.py $TERN_DATA/text/wikitext2_test.raw
"""
import re
import sys


def fnv1a(data):
    h = 0xCBF29CE484222325
    for byte in data:
        h = ((h ^ byte) * 0x100000001B3) % 2**64
    return h


def detokenize(text):
    """The rules of lm-evaluation-harness for WikiText, in their order."""
    text = text.replace("s '", "s'")
    text = re.sub(r"/' [0-9]/", r"/'[0-9]/", text)
    for old, new in ((" @-@ ", "-"), (" @,@ ", ","), (" @.@ ", ".")):
        text = text.replace(old, new)
    for mark in ":;.!?,":
        text = text.replace(f" {mark} ", f"{mark} ")
    for start, inside, end in ((r"\(", r"[^\)]", r"\)"), (r"\[", r"[^\]]", r"\]"), ("{", "[^}]", "}"), ('"', '[^"]', '"'), ("'", "[^']", "'")):
        a, b = start[-1], end[-1]
        text = re.sub(rf"{start}\s*({inside}*?)\s*{end}", lambda m: a + m.group(1) + b, text)
    for old, new in (("= = = =", "===="), ("= = =", "==="), ("= =", "=="), (" \u00b0 ", "\u00b0"), (" \n", "\n"), ("\n ", "\n"), (" N ", " 1 "), (" 's", "'s")):
        text = text.replace(old, new)
    return text


raw = open(sys.argv[1], encoding="utf8", newline="").read()
lines = raw.split("\n")[:-1]
pages = []
for line in lines:
    if line.startswith(" = ") and line.endswith(" = ") and not line.startswith(" = = ") and len(line) > 6:
        pages.append("")
    if pages:
        pages[-1] += line + "\n"
detokenized = "\0".join(map(detokenize, pages)).encode()
gptq = "\n\n".join("" if not line.strip() else line + "\n" for line in lines).encode()
print("pages", len(pages), "words", sum(len(re.split(r"\s+", page)) for page in pages))
print("detokenized", len(detokenized), hex(fnv1a(detokenized)))
print("gptq", len(gptq), hex(fnv1a(gptq)))
