#include "model/rows.h"

#include <utility>

#include "base/error.h"

namespace tern {

void check_rows(const Rows& rows, int64_t context_ranks) {
  const auto T = static_cast<int64_t>(rows.tokens.size()), all = T * context_ranks;
  TERN_CHECK(!rows.starts.empty() && rows.starts.front() == 0 && rows.starts.back() == all &&
                 static_cast<int64_t>(rows.positions.size()) == T,
             "Rows: {} tokens, {} positions, {} starts", T, rows.positions.size(), rows.starts.size());
}

Rows make_rows(std::span<const int32_t> tokens, std::vector<int64_t> starts, const RopeTable* rope) {
  Rows rows{
      .tokens = tokens, .starts = std::move(starts), .positions = std::vector<int32_t>(tokens.size()), .rope = rope};
  check_rows(rows);
  for (size_t s = 0; s + 1 < rows.starts.size(); ++s) {
    TERN_CHECK(rows.starts[s] <= rows.starts[s + 1], "make_rows: sequence {} ends before it starts", s);
    for (int64_t t = rows.starts[s]; t < rows.starts[s + 1]; ++t)
      rows.positions[static_cast<size_t>(t)] = static_cast<int32_t>(t - rows.starts[s]);
  }
  return rows;
}

}  // namespace tern
