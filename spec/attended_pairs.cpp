#include "spec/attended_pairs.h"

#include <algorithm>

namespace tern {

int64_t attended_pairs(int64_t queries, int64_t past, int64_t window) {
  // Query i, counted from 1, sees past + i keys, or the window if that is fewer.
  if (window <= 0) return queries * past + queries * (queries + 1) / 2;
  const int64_t growing = std::clamp<int64_t>(window - past, 0, queries);  // queries that do not fill the window yet
  return growing * past + growing * (growing + 1) / 2 + (queries - growing) * window;
}

int64_t attended_pairs(const AttentionSpec& u, int64_t seq) {
  return u.causal ? attended_pairs(seq, 0, u.window) : seq * seq;
}

}  // namespace tern
