#pragma once
// The rows of one forward: the tokens of some sequences, laid end to end.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/kv_type.h"
#include "model/rope_table.h"

namespace tern {

/// Positions count from the start of each sequence (plus its past).
struct Rows {
  std::span<const int32_t> tokens;      // (T), each < vocab (checked where they come in)
  std::vector<int64_t> starts;          // num_sequences + 1, from 0 to T
  std::vector<int32_t> positions;       // (T)
  const RopeTable* rope = nullptr;      // nullptr for learned positions; covers every position
  std::span<const int32_t> types = {};  // (T) kinds of segments; empty: all the first
  /// Without a cache: keys and values are rounded as a cache of this type would keep them, which gives the bits of a run
  /// with that cache.
  std::optional<KvType> kv = {};
};
/// Rows whose sequences start from position 0.
Rows make_rows(std::span<const int32_t> tokens, std::vector<int64_t> starts, const RopeTable*);
/// Errors: TERN_CHECK: sizes that do not go together. context_ranks: ranks of a context group that have equal parts of the tokens.
void check_rows(const Rows&, int64_t context_ranks = 1);

}  // namespace tern
