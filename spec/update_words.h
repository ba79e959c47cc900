#pragma once
// Update rules in words, for help, refusals and notes. The words are made from the rows of spec/update_rules.def; only
// the learning rates that suit a rule are written out in update_words.cpp.

#include <string>
#include <string_view>

#include "spec/update_rule.h"

namespace tern {

/// The options of `tern train` that the rule reads, in the order of its row: "--momentum, --epsilon, --weight-decay".
std::string flags_of(UpdateRule);

/// One sentence for each rule: the learning rates that suit it, with their source.
std::string_view rate_words(UpdateRule);
/// Whether the learning rates that suit adamw suit this rule too, and so the default of --learning-rate does.
bool takes_adamw_rates(UpdateRule);
/// rate_words for a run with --gradients zeroth-order, whatever its rule.
std::string_view zeroth_rate_words();

/// The topic `tern help updates`: each rule with its options and their defaults, its state, and rates that suit it. The state
/// is in bytes per element, for an f32 model: in a 4,096 × 4,096 matrix, in a table, and in a vector.
std::string updates_help();

}  // namespace tern
