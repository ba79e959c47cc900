#pragma once
// Unigram: a text is cut into the pieces whose scores add up to the most. The reference: Hugging Face's tokenizers.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/tokenizer/budget.h"
#include "formats/tokenizer/byte_trie.h"

namespace tern {

class PieceTable;

/// The model of a tokenizer.json, or of SentencePiece.
struct UnigramModel {
  std::vector<double> scores;  // by id, as the file has them
  std::optional<int32_t> unk;
  bool byte_fallback = false;  // a run of characters without pieces becomes <0xNN> pieces, if all of these are there
  // SentencePiece's own arithmetic: sums rounded to 32 bits, and pieces by type. tokenizers adds in 64 bits.
  bool sums_in_f32 = false;
  std::optional<double> least_score;  // an unknown character scores 10 below this; absent: below the least score
  std::vector<bool> unmatched;        // by id: never found in a text (control symbols); empty: none is so

  /// Fills what encoding looks up, from the fields above and the pieces.
  /// Errors  bad_file "PLACE: …": more pieces than a trie holds.
  void finish(const PieceTable& pieces, const std::string& place);
  ByteTrie trie;
  std::vector<double> costs;  // `scores` as the reference reads them
  double unk_score = 0;
  std::array<int32_t, 256> byte_ids{};  // ids of <0xNN>; -1: none
};

/// Memory that calls of encode_unigram use one after another.
struct UnigramScratch {
  struct Best {  // the best cut of the text up to here ends with piece `id` that begins at `begin`
    double score;
    uint32_t begin;
    int32_t id;
  };
  std::vector<Best> best;
  struct Found {
    uint32_t begin, end;
    int32_t id;
  };
  std::vector<Found> found;
};

/// Appends the ids of one word (valid UTF-8, below 4 GiB). Characters without a piece cost 10 below the worst score and
/// become one unknown piece per run, or bytes.
/// Order   of equal sums the one met first, from the left and from the shortest piece, as in the reference.
/// Errors  bad_file: a character without a piece where there is no unknown piece; so many long pieces nearly match that
///         the budget is used up.
/// Scores: the library reads "-12.345678901234567" as -12345678901234567 / 10^15, each step rounded, which is sometimes
/// not the nearest double and so changes which sums are equal. tern reads scores in the same way, unless sums are in 32
/// bits.
/// Source  Kudo 2018, arXiv:1804.10959; the search as in SentencePiece's EncodeOptimized and tokenizers 0.23.
void encode_unigram(const UnigramModel&, const PieceTable&, std::string_view word, UnigramScratch&, TextBudget&,
                    std::vector<int32_t>& ids);

}  // namespace tern
