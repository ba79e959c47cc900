#pragma once
// Set arithmetic on recorded sets of active neurons of one MLP: what a cache of the last tokens' neurons, or of those that are active most often,
// would have to read. No cache is run.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tern {

using Sets = std::vector<std::vector<int>>;  // of active neurons, one after the other token
struct Arithmetic {
  int64_t missing = 0, runs = 0;
  size_t most_kept = 0;  // neurons of one layer
};
/// What no set of the k tokens before had, and how many runs of at most `most_run` neighbours that is.
Arithmetic by_sets(const Sets&, size_t k, size_t hidden, size_t most_run);
/// What is missing if the `kept` neurons stay that were active most often in another text.
int64_t missing_beside_hottest(const Sets&, const Sets& other, size_t hidden, size_t kept);

}  // namespace tern
