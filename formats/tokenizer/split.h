#pragma once
// The pre-tokenizers of tokenizer.json, text to words, as plain values named as the file names them, and what runs
// them.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "formats/text_span.h"
#include "formats/tokenizer/budget.h"
#include "formats/tokenizer/regex.h"
#include "formats/tokenizer/unicode.h"

namespace tern {

/// What becomes of a match.
enum class SplitBehavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };
/// Where Metaspace puts a space: in front of every part between added tokens, of the first part, of none.
enum class PrependScheme { always, first, never };
/// Split: at matches; invert: at what lies between them.
struct SplitStep {
  Regex pattern;
  SplitBehavior behavior;
  bool invert;
};
/// Digits, Punctuation, WhitespaceSplit; two of them are BertPreTokenizer.
struct SplitOnClassStep {
  CharClass members;
  SplitBehavior behavior;
};
/// CharDelimiterSplit.
struct SplitOnCharacterStep {
  uint32_t character;
};
struct WhitespaceStep {};  // \w+|[^\w\s]+
/// ByteLevel: GPT-2's pattern, if use_regex, and bytes as characters.
struct ByteLevelStep {
  bool add_prefix_space, use_regex;
};
/// Metaspace: spaces become `replacement`, and words begin with it if `split`.
struct MetaspaceStep {
  std::string replacement;
  PrependScheme scheme;
  bool split;
};
using SplitTextStep =
    std::variant<SplitStep, SplitOnClassStep, SplitOnCharacterStep, WhitespaceStep, ByteLevelStep, MetaspaceStep>;

/// A word, as a range of WordSplitter::text.
struct Word {
  size_t begin, end;
  // How many of its first bytes come from the whole text's first character. Steps that rewrite the text leave the number
  // as it was.
  size_t front;
};

/// The words of a text, and memory to find them, which calls use one after another.
struct WordSplitter {
  std::string text, next_text;  // the words lie in `text`
  std::vector<Word> words, next_words;
  std::vector<TextSpan> spans;
};

/// Splits `text` by the steps; its words are then in the splitter. front: how many bytes at the beginning of `text` come from
/// the whole text's first character; Metaspace takes a word that begins among them for the first one. No step may make more
/// than the budget has.
void split_words(const std::vector<SplitTextStep>&, std::string_view text, size_t front, WordSplitter&, TextBudget&);

}  // namespace tern
