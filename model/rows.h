#pragma once
// The rows of one forward: the tokens of some sequences, laid end to end.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/kv_type.h"
#include "model/rope_table.h"

namespace tern {

/// Positions count from the start of each sequence (plus its past, or the sequence that it follows).
struct Rows {
  std::span<const int32_t> tokens;      // (T), each < vocab (checked where the input is read)
  std::vector<int64_t> starts;          // num_sequences + 1, from 0 to T
  std::vector<int32_t> positions;       // (T)
  const RopeTable* rope = nullptr;      // nullptr for learned positions; covers every position
  std::span<const int32_t> types = {};  // (T) types of segments (BERT's); empty: all rows have the first type
  /// For a pass without a cache: rounds keys and values as a cache of this
  /// type would, so that the pass has the bits of a run with that cache.
  std::optional<KvType> kv = {};
  /// Sequence s goes on behind the rows of sequence follows[s] < s and sees them too; −1: it begins by itself. Empty: all begin by themselves.
  /// What is followed begins by itself. Only for causal passes without a cache that save nothing. A row has the bits that it has in one whole sequence.
  std::vector<int> follows = {};
};
/// Rows whose sequences start from position 0, or follow others (Rows::follows).
Rows make_rows(std::span<const int32_t> tokens, std::vector<int64_t> starts, const RopeTable*,
               std::vector<int> follows = {});
/// How many rows of another sequence the rows of sequence s follow.
int64_t rows_before(const Rows&, size_t s);
/// Errors: TERN_CHECK: sizes that contradict each other. context_ranks: the number of ranks in a context group; each has an equal part of the tokens.
void check_rows(const Rows&, int64_t context_ranks = 1);

}  // namespace tern
