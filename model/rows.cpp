#include "model/rows.h"

#include <utility>

#include "base/error.h"

namespace tern {

void check_rows(const Rows& rows, int64_t context_ranks) {
  const auto T = static_cast<int64_t>(rows.tokens.size()), all = T * context_ranks;
  TERN_CHECK(!rows.starts.empty() && rows.starts.front() == 0 && rows.starts.back() == all &&
                 static_cast<int64_t>(rows.positions.size()) == T,
             "Rows: {} tokens, {} positions, {} starts", T, rows.positions.size(), rows.starts.size());
  TERN_CHECK(rows.follows.empty() || rows.follows.size() + 1 == rows.starts.size(),
             "Rows: {} sequences, {} follow others", rows.starts.size() - 1, rows.follows.size());
  for (size_t s = 0; s < rows.follows.size(); ++s) {
    const int of = rows.follows[s];
    TERN_CHECK(of < static_cast<int>(s) && (of < 0 || rows.follows[static_cast<size_t>(of)] < 0),
               "Rows: sequence {} follows {}", s, of);
  }
}

int64_t rows_before(const Rows& rows, size_t s) {
  if (rows.follows.empty() || rows.follows[s] < 0) return 0;
  const auto of = static_cast<size_t>(rows.follows[s]);
  return rows.starts[of + 1] - rows.starts[of];
}

Rows make_rows(std::span<const int32_t> tokens, std::vector<int64_t> starts, const RopeTable* rope,
               std::vector<int> follows) {
  Rows rows{.tokens = tokens,
            .starts = std::move(starts),
            .positions = std::vector<int32_t>(tokens.size()),
            .rope = rope,
            .follows = std::move(follows)};
  check_rows(rows);
  for (size_t s = 0; s + 1 < rows.starts.size(); ++s) {
    TERN_CHECK(rows.starts[s] <= rows.starts[s + 1], "make_rows: sequence {} ends before it starts", s);
    const int64_t before = rows_before(rows, s);
    for (int64_t t = rows.starts[s]; t < rows.starts[s + 1]; ++t)
      rows.positions[static_cast<size_t>(t)] = static_cast<int32_t>(before + t - rows.starts[s]);
  }
  return rows;
}

}  // namespace tern
