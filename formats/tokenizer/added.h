#pragma once
// Added tokens: pieces found in the text before any model sees it.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/text_span.h"

namespace tern {

class TextBudget;  // formats/tokenizer/budget.h

/// A token that is found in the text before the model sees it.
struct AddedToken {
  int32_t id = -1;
  std::string content;
  bool single_word = false;             // only where no letter or digit touches it
  bool lstrip = false, rstrip = false;  // takes the spaces beside it
  bool normalized = false;              // looked for in normalized text, in its normalized spelling
  bool special = false;
};

/// Where in a text control tokens are not looked for (EncodeOptions).
struct PlainRanges {
  std::span<const TextSpan> spans;
  std::span<const int32_t> tokens;               // ids of further added tokens that stay text there
  bool covers(size_t begin, size_t end) const;   // one of the spans holds all of it
  bool touches(size_t begin, size_t end) const;  // … some of it
  bool names(const AddedToken&) const;
};

/// Finds added tokens in text: the leftmost first, and of several that begin there the longest.
class AddedMatcher {
 public:
  /// `spelling` stands in the text for tokens[token_index]. Of equal spellings the last counts.
  void add(std::string_view spelling, uint32_t token_index);
  /// To be called after the last add() and before split().
  void seal();
  bool empty() const { return entries_.empty(); }

  struct Part {
    size_t begin, end;
    int32_t token;  // index of the added token, or -1: text between
  };
  /// Appends the parts of the text. Special tokens stay text where `allow_special` is false, and within `plain` in any
  /// case. Errors: bad_file: the budget, if there is one, is used up.
  void split(std::string_view text, const std::vector<AddedToken>& tokens, bool allow_special, std::vector<Part>& parts,
             const PlainRanges& plain = {}, TextBudget* budget = nullptr) const;

 private:
  struct Entry {
    std::string spelling;
    int32_t token;
  };
  struct Match {
    size_t size = 0;
    int32_t token = -1;
    size_t looked_at = 0;  // bytes, until no token was left
  };
  Match longest_at(std::string_view text, size_t begin) const;

  std::vector<Entry> entries_;  // sorted: what begins alike stands together. A trie took 60 bytes per byte of spelling
  bool starts_[256] = {};
};

}  // namespace tern
