#pragma once
// The normalizers of tokenizer.json, text to text, as plain values named as the file names them, and what runs them.

#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "formats/tokenizer/budget.h"
#include "formats/tokenizer/byte_trie.h"
#include "formats/tokenizer/charsmap.h"
#include "formats/tokenizer/normal_form.h"
#include "formats/tokenizer/regex.h"

namespace tern {

/// Prepend: `text` is put in front.
struct PrependStep {
  std::string text;
};
/// Replace: matches become `content`.
struct ReplaceStep {
  Regex pattern;
  std::string content;
};
/// NFC, NFD, NFKC, NFKD.
struct UnicodeStep {
  NormalForm form;
};
/// Lowercase.
struct LowercaseStep {};
/// StripAccents.
struct StripAccentsStep {};
/// Strip: white space at the ends goes.
struct StripSpacesStep {
  bool left, right;
};
/// ByteLevel: bytes become their characters.
struct ByteLevelTextStep {};
/// BertNormalizer.
struct BertStep {
  bool clean_text, chinese_alone, strip_accents, lowercase;
};
/// Nmt: control characters go, unusual spaces become spaces.
struct NmtStep {};
/// Precompiled: SentencePiece's compiled rules.
struct CharsmapStep {
  std::shared_ptr<const Charsmap> map;  // null: no rules, the text stays
};
/// How SentencePiece itself normalizes (formats/tokenizer/sentencepiece.h); tokenizer.json has no such step.
struct SentencePieceStep {
  std::shared_ptr<const Charsmap> map;
  std::shared_ptr<const ByteTrie> kept;  // user-defined pieces: never rewritten
  bool keeps_some = false;
  bool prefix = true, suffix = false;  // a space is put in front, or behind
  bool remove_extra = true, escape = true;
};
using NormalizeStep =
    std::variant<PrependStep, ReplaceStep, UnicodeStep, LowercaseStep, StripAccentsStep, StripSpacesStep,
                 ByteLevelTextStep, BertStep, NmtStep, CharsmapStep, SentencePieceStep>;

/// What the steps make of a text, and what the pre-tokenizer must know of its beginning.
struct NormalizedText {
  std::string text;
  // How many bytes at the beginning of `text` come from the input's first character; 0: a step removed them all.
  size_t front = 0;
  bool put_before_the_front = false;  // an empty match of a Replace put text before the front
};

/// Runs the steps in order. No step may make more than the budget has; what the last one makes is spent. Errors:
/// bad_file where text was put before the front, and a later step is one that the reference cannot run then.
NormalizedText normalize(const std::vector<NormalizeStep>&, std::string_view text, TextBudget&);

}  // namespace tern
