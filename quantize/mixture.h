#pragma once
// Which matrix gets how many bits: the least sum of what they cost at a number of bytes that is given.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace tern {

/// One matrix: bytes and cost with each of the types it may have; two lists of equal length, not empty.
struct MixtureItem {
  std::vector<int64_t> bytes;
  std::vector<double> cost;
};

/// For each item the place of its type, so that least ≤ Σ bytes ≤ most and Σ cost is small; nothing: no such mixture was found.
/// Cuts [F, most], F the sum of items' fewest bytes, into kMixtureSums equal steps and keeps, of the mixtures whose
/// bytes fall in a step, the cheapest: the best answer of all where most − F < kMixtureSums, and near it elsewhere.
/// Order   items in their order, types in theirs, of equals the first: the same answer wherever it is asked.
/// Source  the multiple-choice knapsack's dynamic programme (Dudziński and Walukiewicz 1987; recalled), its table thinned.
std::optional<std::vector<int>> choose_mixture(std::span<const MixtureItem>, int64_t least, int64_t most);
inline constexpr int64_t kMixtureSums = 4096;

}  // namespace tern
