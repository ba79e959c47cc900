#pragma once
// SentencePiece's compiled normalization rules: a double-array trie from spellings to replacements. The reference: Hugging Face's tokenizers.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/tokenizer/budget.h"

namespace tern {

/// A table of rules, immutable.
/// Source  SentencePiece's precompiled_charsmap: a u32 with the trie's
///         size in bytes, the units of darts-clone, then the replacements,
///         each ended by a zero byte. Read as facts of the format.
class Charsmap {
 public:
  /// Errors  bad_file "PLACE: …": sizes that do not fit, replacements that are not UTF-8.
  Charsmap(std::string_view bytes, std::string place);

  struct Match {
    size_t size;  // bytes of the text
    std::string_view replacement;
  };
  /// The rule of the shortest or of the longest spelling that begins the text. Errors  bad_file: the trie leads
  /// outside.
  std::optional<Match> shortest(std::string_view text) const { return find(text, true); }
  std::optional<Match> longest(std::string_view text) const { return find(text, false); }
  /// Whether some rule begins with this byte.
  bool begins(char byte) const { return begins_[static_cast<uint8_t>(byte)]; }

 private:
  std::optional<Match> find(std::string_view text, bool first) const;
  uint32_t unit(size_t at) const;
  std::string_view replacement_at(size_t at) const;

  std::string place_;
  std::vector<uint32_t> units_;
  std::string replacements_;
  bool begins_[256] = {};
};

/// Rewrites the text by the rules, as the reference's Precompiled normalizer does: a grapheme cluster of up to five
/// bytes that begins with a spelling is replaced as a whole; in longer ones each character is. Within the budget's
/// bytes.
std::string apply_by_clusters(const Charsmap&, std::string_view text, const TextBudget&);

}  // namespace tern
