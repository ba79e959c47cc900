#pragma once
// What others would choose, under the same costs and judged by the same simulator: rules of thumb, restricted spaces,
// other objectives. A restricted space is an Instance too, so that the exact search runs in it unchanged.

#include <cstdint>
#include <span>
#include <vector>

#include "planner/instance/search.h"

namespace tern {

struct Baseline {
  bool found = false;
  Assignment assignment;
  int64_t makespan_ps = 0;
  int64_t tried = 0;  // assignments priced
};

/// Megatron's rule of thumb: layers split evenly over the (virtual) stages, the first stages one longer, and one
/// strategy everywhere: the fastest that fits. Layers need the same number of strategies.
Baseline uniform_even(const Instance&);
/// UniAP: its space is the Instance's, its objective the simple one; the answer priced on the simulator.
Baseline uniap(const Instance&, const SearchOptions& = {});
/// The best of `samples` assignments drawn at random, stages and strategies alike, among those that fit.
Baseline random_valid(const Instance&, int64_t samples, uint64_t seed);
/// Every assignment. Errors: usage, for more than `most` of them.
Baseline exhaustive(const Instance&, int64_t most = 20'000'000);

/// The Instance with only the strategies named (data parallel alone, no recomputation, …), in every layer. An answer's
/// strategy k is kept[k] of the whole.
Instance keep_strategies(const Instance&, std::span<const int> kept);
/// The Instance in which only stages of these numbers of layers are worth taking (Galvatron's even split): other
/// boundaries cost more than any assignment. Errors: usage, for counts that do not cover the layers.
Instance fix_stages(const Instance&, std::span<const int> layers_of_stage);
std::vector<int> even_stages(const Instance&);

}  // namespace tern
