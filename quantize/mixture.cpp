#include "quantize/mixture.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace tern {
namespace {

// The best way so far to a sum of bytes (above all items at their fewest) within one step.
struct Sum {
  double cost = INFINITY;
  int64_t bytes = 0;
};
struct Step {
  uint16_t from = 0;
  uint8_t type = 0;
};

}  // namespace

std::optional<std::vector<int>> choose_mixture(std::span<const MixtureItem> items, int64_t least, int64_t most) {
  int64_t fewest = 0;
  for (const MixtureItem& item : items) {
    TERN_CHECK(!item.bytes.empty() && item.bytes.size() == item.cost.size() && item.bytes.size() < 256,
               "choose_mixture: {} sizes, {} costs", item.bytes.size(), item.cost.size());
    fewest += std::ranges::min(item.bytes);
  }
  if (fewest > most) return {};
  const int64_t room = most - fewest, step = room / kMixtureSums + 1;
  std::vector<Sum> sums(kMixtureSums);
  sums[0] = {0, 0};
  std::vector<std::vector<Step>> steps;
  for (const MixtureItem& item : items) {
    const int64_t own = std::ranges::min(item.bytes);
    std::vector<Sum> next(kMixtureSums);
    std::vector<Step> by(kMixtureSums);
    for (size_t from = 0; from < sums.size(); ++from)
      for (size_t t = 0; t < item.bytes.size() && std::isfinite(sums[from].cost); ++t) {
        const Sum to{sums[from].cost + item.cost[t], sums[from].bytes + item.bytes[t] - own};
        if (to.bytes > room) continue;
        Sum& there = next[static_cast<size_t>(to.bytes / step)];
        if (!(to.cost < there.cost || (to.cost == there.cost && to.bytes < there.bytes))) continue;
        there = to;
        by[static_cast<size_t>(to.bytes / step)] = {static_cast<uint16_t>(from), static_cast<uint8_t>(t)};
      }
    sums = std::move(next);
    steps.push_back(std::move(by));
  }
  std::optional<size_t> best;
  for (size_t i = 0; i < sums.size(); ++i)
    if (std::isfinite(sums[i].cost) && fewest + sums[i].bytes >= least && (!best || sums[i].cost < sums[*best].cost))
      best = i;
  if (!best) return {};
  std::vector<int> chosen(items.size());
  for (size_t i = items.size(), at = *best; i-- > 0;) {
    chosen[i] = steps[i][at].type;
    at = steps[i][at].from;
  }
  return chosen;
}

}  // namespace tern
