#pragma once
// The command's own table of verbs and options; base/options.h explains such tables.

#include "base/options.h"

namespace tern {

const OptionTable& tern_options();

/// `tern help TOPIC`: exit-codes, environment, files, recipes, machines, updates, options. Errors: usage, with the nearest topic or verb.
std::string help_topic(const OptionTable&, std::string_view topic);

/// The output of `tern config show [VERB] [RECIPE] [flags]`: key, value and origin of everything that a verb would use. Without VERB: train.
/// `arguments`: those after "config".
std::string show_config(const OptionTable&, const std::vector<std::string>& arguments, const Environment&);

}  // namespace tern
