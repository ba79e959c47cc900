#include "train/nearest_order.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <utility>
#include <vector>

#include "base/rounding.h"
#include "train/settings_ranks.h"

namespace tern {
namespace {

// As check_ranks wants them, whatever the micro-batches.
std::vector<int64_t> group_choices(const TrainSettings& s) {
  const int64_t groups = s.sum_order.groups;
  if (deepest_zero(s) >= 2 && num_sharers(s) > 1) return {data_parallel_size(s)};
  if (check_sum_order(s.sum_order, data_parallel_size(s), groups) == SumFault::none) return {groups};
  std::vector<int64_t> choices{data_parallel_size(s)};
  while (choices.back() < groups) choices.push_back(2 * choices.back());
  return choices;
}

int64_t largest_divisor(int64_t of, int64_t most) {
  int64_t largest = 1;
  for (int64_t d = 1; d * d <= of; ++d)
    if (of % d == 0)
      for (const int64_t divisor : {d, of / d})
        if (divisor <= most) largest = std::max(largest, divisor);
  return largest;
}

}  // namespace

StepOrder nearest_order(const TrainSettings& s) {
  const int64_t groups = std::ranges::min(
      group_choices(s), {}, [&](int64_t g) { return std::pair(s.batch % g != 0, std::abs(g - s.sum_order.groups)); });
  const int64_t share = ceil_div(s.batch, groups);
  return {.groups = groups, .batch = share * groups, .micro_batch = largest_divisor(share, s.micro_batch)};
}

std::string remedy_of(const TrainSettings& s, const StepOrder& order) {
  std::vector<std::string> changes;
  if (order.batch != s.batch) changes.push_back(fmt::format("--batch {}", order.batch));
  if (order.micro_batch != s.micro_batch) changes.push_back(fmt::format("--micro-batch {}", order.micro_batch));
  if (order.groups != s.sum_order.groups) changes.push_back(fmt::format("--sum-groups {}", order.groups));
  return fmt::format("{}", fmt::join(changes, " and "));
}

}  // namespace tern
