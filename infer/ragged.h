#pragma once
// The batch of one forward: pieces of sequences, laid end to end. Engine and Embedder both use it.

#include <cstdint>
#include <span>
#include <vector>

#include "model/unit.h"

namespace tern {

class RaggedBatch {
 public:
  /// Appends tokens of one sequence, of which the first has position `first` in the sequence.
  void add(std::span<const int32_t> tokens, int64_t first) {
    tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
    for (size_t i = 0; i < tokens.size(); ++i)
      rows_.positions.push_back(static_cast<int32_t>(first) + static_cast<int32_t>(i));
    rows_.starts.push_back(num_rows());
  }
  int64_t num_rows() const { return static_cast<int64_t>(tokens_.size()); }
  /// The first row of each piece, and at the end the number of rows.
  const std::vector<int64_t>& starts() const { return rows_.starts; }
  /// The rows for a forward. They look into this batch and are valid until the next add.
  const Rows& rows(const RopeTable* rope) {
    rows_.tokens = tokens_, rows_.rope = rope;
    return rows_;
  }

 private:
  std::vector<int32_t> tokens_;
  Rows rows_{.tokens = {}, .starts = {0}, .positions = {}};
};

}  // namespace tern
