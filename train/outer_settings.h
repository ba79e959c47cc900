#pragma once
// --outer: ranks that train alone and average how far they came, read and checked.

#include <optional>
#include <string_view>
#include <vector>

#include "train/manifest.h"
#include "update/outer.h"

namespace tern {

class Options;
struct DerivedValue;
struct TrainSettings;

/// None without --outer. Errors: usage, naming the option: one that says nothing without --outer or for this kind, values that contradict each
/// other, or what does not go beside it (--zero, --plan, --tensor-parallel, --context-parallel, --aggregator, --async, --trace, rules that compute elsewhere).
std::optional<OuterConfig> outer_from(const Options&, const TrainSettings&);
/// Whether it is --outer or one of its own; whether it says something in such a run.
bool is_outer_option(std::string_view name);
bool says_something(std::string_view name, const std::optional<OuterConfig>&);

/// The kind's own defaults, for options that are not given.
std::vector<DerivedValue> outer_defaults(const Options&);

/// The settings that a resumed run must have in common with its checkpoint.
Facts outer_facts(const TrainSettings&);

}  // namespace tern
