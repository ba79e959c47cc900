#pragma once
// The options of --outer, under which ranks train alone for some steps and then average how far they came.

#include <optional>
#include <string_view>
#include <vector>

#include "train/manifest.h"
#include "update/outer.h"

namespace tern {

class Options;
struct DerivedValue;
struct TrainSettings;

/// What --outer and its options ask for; none without --outer.
/// Errors: usage, naming the option: it has no effect without --outer or with this kind; it contradicts another value; it does not go with
/// --outer (--zero, --plan, --tensor-parallel, --context-parallel, --expert-parallel, --aggregator, --async, --trace, rules that compute
/// gradients at other weights than those they keep: UpdateRuleRow::computes_elsewhere).
std::optional<OuterConfig> outer_from(const Options&, const TrainSettings&);
/// The kind, as --outer names it.
std::string_view outer_name(const OuterConfig&);
/// Whether it is --outer or one of its options.
bool is_outer_option(std::string_view name);
/// Whether such an option has an effect with this choice.
bool says_something(std::string_view name, const std::optional<OuterConfig>&);

/// The defaults that the kind of --outer gives to options that are not given.
std::vector<DerivedValue> outer_defaults(const Options&);

/// The settings that a resumed run must have in common with its checkpoint.
Facts outer_facts(const TrainSettings&);

}  // namespace tern
