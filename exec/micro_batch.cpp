#include "exec/micro_batch.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "model/ring_rows.h"

namespace tern {

MicroBatch::MicroBatch(std::vector<int32_t> tokens_in, std::vector<int64_t> starts, std::vector<int32_t> targets_in,
                       const RopeTable* rope)
    : tokens(std::move(tokens_in)), targets(std::move(targets_in)), rows(make_rows(tokens, std::move(starts), rope)) {}

int64_t MicroBatch::num_targets() const {
  return std::count_if(targets.begin(), targets.end(), [](int32_t t) { return t >= 0; });
}

// The rows of some intervals, one after the other.
static MicroBatch rows_of(const MicroBatch& whole, std::span<const RowInterval> intervals) {
  const auto cut = [&](const std::vector<int32_t>& all) {
    std::vector<int32_t> own;
    for (const auto& [first, end] : intervals) own.insert(own.end(), all.begin() + first, all.begin() + end);
    return own;
  };
  MicroBatch part;
  part.tokens = cut(whole.tokens), part.targets = cut(whole.targets);
  part.first_row = whole.first_row + intervals.front().first;
  part.gap = intervals.back().first - intervals.front().first;
  if (intervals.size() > 1) part.gap -= intervals.front().end - intervals.front().first;
  part.rows = whole.rows;
  part.rows.tokens = part.tokens, part.rows.positions = cut(whole.rows.positions);
  return part;
}

MicroBatch context_part(const MicroBatch& whole, int index, int ranks) {
  const int64_t rows = std::ssize(whole.tokens) / ranks;
  TERN_CHECK(rows * ranks == std::ssize(whole.tokens), "context_part: {} rows on {} ranks", whole.tokens.size(), ranks);
  return rows_of(whole, {{RowInterval{index * rows, (index + 1) * rows}}});
}

MicroBatch ring_part(const MicroBatch& whole, int index, int ranks) {
  return rows_of(whole, rows_in_ring(std::ssize(whole.tokens), index, ranks));
}

}  // namespace tern
