#pragma once
// What others would choose in an Instance: rules of thumb, restricted spaces, other objectives, all priced by the stage
// model. A restricted space is an Instance too, so the exact search runs in it unchanged.

#include <cstdint>
#include <span>
#include <vector>

#include "planner/instance/search.h"

namespace tern {

/// An answer.
struct Baseline {
  bool found = false;
  Assignment assignment;
  int64_t makespan_ps = 0;
  int64_t tried = 0;  // assignments priced
};

/// Megatron's rule of thumb: layers split evenly over the (virtual) stages, the first stages one longer, and one
/// strategy everywhere: the fastest that fits. All layers must have the same number of strategies.
Baseline uniform_even(const Instance&);
/// UniAP's answer: the search of the Instance by the simple objective. The answer is then priced by the stage model.
Baseline uniap(const Instance&, const SearchOptions& = {});
/// The best of those that fit among `samples` assignments, whose stages and strategies are drawn at random.
Baseline random_valid(const Instance&, int64_t samples, uint64_t seed);
/// The best of all assignments. Errors: usage, for more than `most` of them.
Baseline exhaustive(const Instance&, int64_t most = 20'000'000);

/// The Instance in which every layer has only the strategies `kept` (data parallel alone, no recomputation, …). Strategy k
/// of an answer is strategy kept[k] of the original Instance.
Instance keep_strategies(const Instance&, std::span<const int> kept);
/// The Instance whose stages have these numbers of layers (Galvatron's even split): a boundary elsewhere costs more
/// than any assignment. Errors: usage, for counts that do not cover the layers.
Instance fix_stages(const Instance&, std::span<const int> layers_of_stage);
/// Numbers of layers of the stages of an even split, the first stages one longer.
std::vector<int> even_layer_counts(const Instance&);

}  // namespace tern
