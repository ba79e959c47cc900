#pragma once
// --aggregator and what goes with it: the gradients of ranks of which some may send anything.

#include <optional>
#include <string_view>
#include <vector>

#include "exec/executor.h"
#include "train/settings.h"

namespace tern {

class Options;

/// None without --aggregator. Errors: usage, naming the option: one that says nothing for the aggregator (or without one), fewer
/// ranks than it takes for --byzantine, --zero, a plan of several stages.
std::optional<RobustConfig> robust_from(const Options&, const TrainSettings&);

/// Whether it is one of --aggregator, --byzantine, …; and whether it changes anything with this choice.
bool is_robust_option(std::string_view name);
bool says_something(std::string_view name, const std::optional<RobustConfig>&);

/// All that a checkpoint of such a run must go on with; the number of ranks too, each of which is a worker.
Facts robust_facts(const TrainSettings&);

/// Of a study with --attack label-flip: whether this rank learns what is wrong.
bool flips_labels(const TrainSettings&, int rank);
/// Each target y becomes vocabulary - 1 - y.
void flip_labels(std::vector<MicroBatch>&, int64_t vocabulary);

}  // namespace tern
