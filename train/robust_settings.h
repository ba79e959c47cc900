#pragma once
// The options of --aggregator, which combines the ranks' gradients although some ranks may send anything.

#include <optional>
#include <string_view>

#include "train/manifest.h"
#include "train/settings.h"

namespace tern {

class Options;

/// What --aggregator and its options ask for; none without --aggregator. Errors: usage, naming the option: one that has no effect with this
/// aggregator (or without one); fewer ranks than the aggregator needs for --byzantine; --zero; a plan of several stages.
std::optional<RobustConfig> robust_from(const Options&, const TrainSettings&);

/// Whether it is --aggregator or one of its options (--byzantine, …).
bool is_robust_option(std::string_view name);
/// Whether such an option has an effect with this choice.
bool says_something(std::string_view name, const std::optional<RobustConfig>&);

/// The settings that a resumed run must have in common with its checkpoint. The number of ranks is one of them, as each rank is a worker.
Facts robust_facts(const TrainSettings&);

}  // namespace tern
