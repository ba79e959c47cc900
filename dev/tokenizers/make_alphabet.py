#!/usr/bin/env python3
"""Writes tests/golden/tokenizers/alphabet.json: what the parity strings are made of. Run in the root of the repository."""
import json
import unicodedata

categories = {}
for c in range(0x110000):
    name = unicodedata.category(chr(c))
    if name in ("Cs", "Cn", "Co"):
        continue
    r = categories.setdefault(name, [])
    if r and r[-1][1] == c - 1:
        r[-1][1] = c
    else:
        r.append([c, c])
# At most 40 ranges of each, spread evenly; unassigned, private and newer characters have a list of their own.
spread = lambda r: [r[i * len(r) // 40] for i in range(40)] if len(r) > 40 else r
lists = [spread(r) for _, r in sorted(categories.items())]
lists.append([[0x1C89, 0x1C8A], [0x10D40, 0x10D49], [0x2FFC, 0x2FFF], [0x1E5D0, 0x1E5FA], [0xA7CB, 0xA7CD], [0xE000, 0xE100], [0x378, 0x379]])

alphabet = {
    "categories": lists,
    "scripts": [
        [[0x41, 0x5A], [0x61, 0x7A], [0xC0, 0xFF]],
        [[0x391, 0x3A1], [0x3B1, 0x3C9]],
        [[0x410, 0x44F]],
        [[0x5D0, 0x5EA], [0x5B0, 0x5BC]],
        [[0x627, 0x64A], [0x64B, 0x652], [0x660, 0x669]],
        [[0x905, 0x939], [0x93E, 0x94D], [0x966, 0x96F]],
        [[0xE01, 0xE3A], [0xE40, 0xE4E]],
        [[0x4E00, 0x9FA5]],
        [[0x3041, 0x3096], [0x30A1, 0x30FA], [0x4E00, 0x5000]],
        [[0xAC00, 0xD7A3]],
        [[0x531, 0x556], [0x561, 0x587]],
        [[0x1200, 0x1248]],
        [[0xF40, 0xF47], [0xF71, 0xF7C]],
    ],
    "emoji": ["😀", "👩‍🔬", "👨‍👩‍👧‍👦", "🏳️‍🌈", "🇫🇷", "👍🏽", "❤️", "1️⃣", "🤷🏿‍♂️", "☃", "🧑‍🚀", "🏴󠁧󠁢󠁳󠁣󠁴󠁿"],
    "spaces": [" ", "  ", "\n", "\r\n", "\t", "\r", "\u00a0", "\u3000", "\u2028", "\u2003", "\n\n", "    ", "\u0085", "\u200b", "\ufeff", "\v"],
    "words": ["the", "Hello", "world", "don't", "it's", "WE'LL", "I'm", "naïve", "straße", "coöperate", "x", "I", "über", "façade",
              "tokenization", "antidisestablishmentarianism", "ﬁne", "Ångström", "e\u0301te\u0301", "İstanbul", "'s", "'S", "'\u017f", "'Re",
              "ß", "ΑΣ", "日本語", "мир", "שלום", "سلام", "你好", "हिन्दी", "ไทย", "한국어", "½", "²", "Ⅷ", "①", "▁", "▁▁a", "_", "Ġ", "Ċ"],
    "separators": ["", " ", ",", ".", "-", "/", " + ", "e", "%", "\n", "٣", "½"],
    "code": ["for (int i = 0; i < n; ++i) {\n", "    return x;\n", "}\n\n", "def f(a, b=None):\n\t", "<div class=\"a\">", "</div>", "// TODO: fix\n",
             "std::vector<int>", "a->b", "!==", "...", "https://example.org/a?b=c&d=%20", "{\"k\": [1, 2]}", "\\n", "#include <x.h>\r\n", "$PATH", "`ls -la`",
             "SELECT * FROM t;", "0x1F", "/* c */", "\t\t", "==>", "   \n   "],
    "specials": ["<|endoftext|>", "<s>", "</s>", "<unk>", "<|begin_of_text|>", "<|eot_id|>", "<|reserved_special_token_5|>", "<|start_header_id|>",
                 "[SEP]", "<0x0A>", "<|", "|>", "<|endoftext", "<mask>", "tern", "<pad>"],
    "endings": [" ", ", ", ". ", "! ", "? ", " - ", "; ", "\n", "...", "'", "\" ", " (", ") ", "—", "", "  "],
}
with open("tests/golden/tokenizers/alphabet.json", "w", encoding="utf-8") as f:
    json.dump(alphabet, f, ensure_ascii=True)
    f.write("\n")
