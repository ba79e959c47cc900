#pragma once
// --aggregator and what goes with it: the gradients of ranks of which some may send anything.

#include <optional>
#include <string_view>
#include <vector>

#include "exec/executor.h"
#include "train/settings.h"

namespace tern {

class Options;

/// None without --aggregator. Errors: usage, naming the option: one that has no effect with this aggregator (or
/// without one), fewer ranks than the aggregator needs for --byzantine, --zero, a plan of several stages.
std::optional<RobustConfig> robust_from(const Options&, const TrainSettings&);

/// Whether it is one of --aggregator, --byzantine, …; and whether it changes anything with this choice.
bool is_robust_option(std::string_view name);
bool says_something(std::string_view name, const std::optional<RobustConfig>&);

/// The settings that a resumed run must have in common with its checkpoint; the number of ranks too, as each is a worker.
Facts robust_facts(const TrainSettings&);

/// Under --attack label-flip: whether this rank is one that learns flipped targets.
bool flips_labels(const TrainSettings&, int rank);
/// Each target y becomes vocabulary - 1 - y.
void flip_labels(std::vector<MicroBatch>&, int64_t vocabulary);

}  // namespace tern
