#include "exec/micro_batch.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace tern {

MicroBatch::MicroBatch(std::vector<int32_t> tokens_in, std::vector<int64_t> starts, std::vector<int32_t> targets_in,
                       const RopeTable* rope)
    : tokens(std::move(tokens_in)), targets(std::move(targets_in)), rows(make_rows(tokens, std::move(starts), rope)) {}

int64_t MicroBatch::num_targets() const {
  return std::count_if(targets.begin(), targets.end(), [](int32_t t) { return t >= 0; });
}

MicroBatch context_part(const MicroBatch& whole, int index, int ranks) {
  const int64_t rows = std::ssize(whole.tokens) / ranks, first = index * rows;
  TERN_CHECK(rows * ranks == std::ssize(whole.tokens), "context_part: {} rows on {} ranks", whole.tokens.size(), ranks);
  const auto cut = [&](const std::vector<int32_t>& all) {
    return std::vector<int32_t>(all.begin() + first, all.begin() + first + rows);
  };
  MicroBatch part;
  part.tokens = cut(whole.tokens), part.targets = cut(whole.targets);
  part.first_row = whole.first_row + first;
  part.rows = whole.rows;
  part.rows.tokens = part.tokens, part.rows.positions = cut(whole.rows.positions);
  return part;
}

}  // namespace tern
