#pragma once
// WordPiece: from the left the longest piece each time; pieces inside a word carry a prefix ("##").

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/tokenizer/budget.h"
#include "formats/tokenizer/byte_trie.h"

namespace tern {

class PieceTable;

/// The model of a tokenizer.json, or of vocab.txt.
struct WordPieceModel {
  std::string prefix = "##";
  int64_t max_characters = 100;  // a longer word is unknown
  std::optional<int32_t> unk;
  std::string unk_token;

  /// Fills what encoding looks up. Errors  bad_file "PLACE: …": more pieces than a trie holds.
  void finish(const PieceTable& pieces, const std::string& place);
  ByteTrie at_front, inside;  // `inside` without the prefix
};

/// Appends the ids of one word (valid UTF-8): its pieces, or one unknown piece if it has a part without any.
/// Errors  bad_file: a word without pieces where the unknown piece is not in the vocabulary; so many long pieces nearly
///         match that the budget is used up.
/// Source  Wu et al. 2016, arXiv:1609.08144 as BERT uses it; tokenizers 0.23.
void encode_word_piece(const WordPieceModel&, std::string_view word, TextBudget&, std::vector<int32_t>& ids);

}  // namespace tern
