#include "model/ring_rows.h"

#include <algorithm>

#include "base/error.h"

namespace tern {

std::array<RowInterval, 2> rows_in_ring(int64_t rows, int rank, int ranks) {
  const int64_t each = rows / (2 * ranks), mirror = 2 * ranks - 1 - rank;
  TERN_CHECK(each * 2 * ranks == rows, "rows_in_ring: {} rows on {} ranks", rows, ranks);
  return {RowInterval{rank * each, (rank + 1) * each}, {mirror * each, (mirror + 1) * each}};
}

void add_pieces(std::span<const int64_t> starts, const PartPlace& queries, const PartPlace& keys, int64_t window,
                std::vector<AttentionPiece>& pieces) {
  const auto common = [](const RowInterval& part, int64_t begin, int64_t end) {
    return RowInterval{std::max(part.first, begin), std::min(part.end, end)};
  };
  for (size_t s = 0; s + 1 < starts.size(); ++s) {
    const RowInterval q = common(queries.rows, starts[s], starts[s + 1]),
                      k = common(keys.rows, starts[s], starts[s + 1]);
    const int64_t distance = q.first - k.first;
    if (q.first >= q.end || k.first >= k.end || distance < 0) continue;
    if (window > 0 && q.first - (k.end - 1) >= window) continue;  // the nearest query and key
    pieces.push_back({.query_row = queries.begin + q.first - queries.rows.first,
                      .num_queries = q.end - q.first,
                      .key_row = keys.begin + k.first - keys.rows.first,
                      .num_keys = k.end - k.first,
                      .distance = distance});
  }
}

}  // namespace tern
