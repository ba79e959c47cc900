#include "infer/step_experts.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "infer/stream_times.h"

namespace tern {
namespace {

// The cache's item that holds the matrix; -1: it is in no cache.
struct CachedMatrix {
  ExtentCache* cache = nullptr;
  int item = -1;
};
CachedMatrix cached(const Linear& linear) {
  const auto* banded = std::get_if<BandedWeight>(&linear.weight);
  if (!banded || banded->bands.empty()) return {};
  auto* cache = dynamic_cast<ExtentCache*>(banded->bands.front().ring);
  return cache ? CachedMatrix{cache, cache->item_at(banded->bands.front().place)} : CachedMatrix{};
}

}  // namespace

StepExperts step_experts(const StreamPlan& plan) {
  StepExperts experts;
  for (const FileExperts& unit : plan.bands.experts)
    for (int number = 0; number < 2 * static_cast<int>(unit.up.size()); ++number)
      experts.items.push_back({unit.unit, number});
  const std::vector<CacheItem> items = expert_items(plan.bands);
  for (const CacheItem& item : items) experts.item_bytes.push_back(ExtentCache::block_bytes_of(item, kStreamAlignment));
  if (!items.empty()) experts.slot_bytes = ExtentCache::slot_bytes_of(items, plan.cache.slots, kStreamAlignment);
  return experts;
}

StepExperts step_experts(const ModelSpec& spec, const ModelWeights& weights) {
  StepExperts experts;
  for (size_t u = 0; u < spec.units.size(); ++u) {
    const auto* moe = std::get_if<MoeWeights>(&weights.units[u]);
    for (int number = 0; moe && number < 2 * static_cast<int>(moe->up.size()); ++number) {
      const auto [cache, item] = cached((number % 2 == 0 ? moe->up : moe->down)[static_cast<size_t>(number / 2)]);
      if (!cache) continue;
      TERN_CHECK(item == std::ssize(experts.items), "step_experts: item {} of {}", item, experts.items.size());
      experts.cache = cache;
      experts.items.push_back({static_cast<int>(u), number});
      experts.item_bytes.push_back(cache->block_bytes(item));
    }
  }
  if (experts.cache) experts.slot_bytes = experts.cache->slot_bytes();
  return experts;
}

std::vector<std::vector<ExpertUse>> expert_uses(const ModelSpec& spec, const StepExperts& experts,
                                                std::span<const ExtentCache::Event> events, CacheDecisions& decisions) {
  std::vector<std::vector<ExpertUse>> uses(spec.units.size());
  for (const ExtentCache::Event& event : events) {
    if (event.item >= 0) {
      decisions.see(event.item, event.share);
      continue;
    }
    if (event.list.empty()) continue;
    const auto matrix = [&](int item) { return experts.items[static_cast<size_t>(item)]; };
    std::vector<ExpertUse>& of_unit = uses[static_cast<size_t>(matrix(event.list.front()).unit)];
    TERN_CHECK(of_unit.empty(), "expert_uses: two lists of unit {} in a step", matrix(event.list.front()).unit);
    for (const int item : event.list) of_unit.push_back({.number = matrix(item).number, .read = false});
    for (const PlannedRead& read : decisions.want(event.list)) {
      ExpertUse& use = of_unit[static_cast<size_t>(read.place)];
      use.read = true;
      use.bytes = experts.item_bytes[static_cast<size_t>(event.list[static_cast<size_t>(read.place)])];
      if (read.replaces >= 0) use.replaces = matrix(read.replaces);
    }
  }
  return uses;
}

std::vector<std::vector<ExpertUse>> expected_expert_uses(const ModelSpec& spec, const StreamPlan& plan, int64_t tokens,
                                                         double hits) {
  std::vector<std::vector<ExpertUse>> uses(spec.units.size());
  const auto mean_bytes = [](const std::vector<FileMatrix>& matrices) {
    double bytes = 0;
    for (const FileMatrix& m : matrices)
      for (const FileBand& band : m.bands) bytes += static_cast<double>(blocks_of(band.extent, kStreamAlignment).bytes);
    return bytes / static_cast<double>(matrices.size());
  };
  for (const FileExperts& unit : plan.bands.experts) {
    const double distinct = distinct_experts(unit, tokens);
    const auto count = static_cast<int64_t>(std::ceil(distinct - 1e-9));
    for (const auto* matrices : {&unit.up, &unit.down}) {
      const double bytes = (1 - hits) * distinct * mean_bytes(*matrices);
      for (int64_t k = 0; k < count; ++k) {  // whole bytes that add up to the sum
        const auto until = [&](int64_t n) {
          return std::llround(bytes * static_cast<double>(n) / static_cast<double>(count));
        };
        uses[static_cast<size_t>(unit.unit)].push_back({.number = std::nullopt, .bytes = until(k + 1) - until(k)});
      }
    }
  }
  return uses;
}

std::vector<ExpertMatrix> experts_there(const StepExperts& experts, const CacheDecisions& decisions) {
  std::vector<ExpertMatrix> there;
  for (size_t i = 0; i < experts.items.size(); ++i)
    if (decisions.slot_of(static_cast<int>(i)) >= 0) there.push_back(experts.items[i]);
  return there;
}

}  // namespace tern
