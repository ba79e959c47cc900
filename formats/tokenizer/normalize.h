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

struct PrependStep {
  std::string text;
};
struct ReplaceStep {
  Regex pattern;
  std::string content;
};
struct UnicodeStep {
  NormalForm form;
};
struct LowercaseStep {};
struct StripAccentsStep {};
struct StripSpacesStep {
  bool left, right;
};
struct ByteLevelTextStep {};
struct BertStep {
  bool clean_text, chinese_alone, strip_accents, lowercase;
};
struct NmtStep {};
struct CharsmapStep {
  std::shared_ptr<const Charsmap> map;  // null: no rules, the text stays
};
struct SentencePieceStep {  // formats/tokenizer/sentencepiece.h
  std::shared_ptr<const Charsmap> map;
  std::shared_ptr<const ByteTrie> kept;  // user-defined pieces: never rewritten
  bool keeps_some = false;
  bool prefix = true, suffix = false;  // a space is put in front, or behind
  bool remove_extra = true, escape = true;
};
using NormalizeStep =
    std::variant<PrependStep, ReplaceStep, UnicodeStep, LowercaseStep, StripAccentsStep, StripSpacesStep,
                 ByteLevelTextStep, BertStep, NmtStep, CharsmapStep, SentencePieceStep>;

/// Runs the steps in order and returns the text that they make. Sets `front_removed` if a step took characters away
/// from the front of `text`, else clears it (the Metaspace step asks). No step may make more than the budget has; what
/// the last one makes is spent.
std::string normalize(const std::vector<NormalizeStep>&, std::string_view text, bool& front_removed, TextBudget&);

}  // namespace tern
