#include "apps/memory_shares.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/units.h"

namespace tern {

MemoryShares::MemoryShares(const MemoryBudget& budget, std::vector<std::pair<std::string, int64_t>> least)
    : all_(budget), least_(std::move(least)), spare_(budget.bytes) {
  if (least_.size() == 1) return;
  std::string each;
  int64_t sum = 0;
  for (const auto& [name, bytes] : least_) {
    each += fmt::format("{}{} for {}", each.empty() ? "" : ", ", format_bytes(bytes), name);
    sum += bytes;
  }
  spare_ -= sum;
  if (spare_ >= 0) return;
  const std::string more = memory_remedy(budget, sum);
  throw Error(ErrorKind::does_not_fit,
              "{} models do not fit beside each other: {}, {} together, and there are {} ({}); leave one out, serve a "
              "smaller form of it (tern quantize), or lower --context or --max-running{}",
              least_.size(), each, format_bytes(sum), format_bytes(std::max<int64_t>(0, budget.bytes)), budget.source,
              more.empty() ? "" : fmt::format("; {} or more would do", more));
}

MemoryBudget MemoryShares::next(int64_t taken) {
  if (least_.size() == 1) return all_;
  if (at_ > 0) spare_ -= taken - least_[at_ - 1].second;
  const auto left = static_cast<int64_t>(least_.size() - at_);
  MemoryBudget share = all_;
  share.bytes = least_[at_++].second + spare_ / left;
  if (share.program >= 0) share.program += all_.bytes - share.bytes;
  share.source += fmt::format(", a share beside {} other{}", least_.size() - 1, least_.size() > 2 ? "s" : "");
  return share;
}

}  // namespace tern
