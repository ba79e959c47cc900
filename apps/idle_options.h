#pragma once
// What a run of `tern train` in one process was asked for and does not do: it is of ranks that are processes, or of several ranks.

#include <string>
#include <vector>

#include "base/options.h"
#include "train/settings.h"

namespace tern {

/// A sentence for people about each of --comm-timeout, --zero and TERN_FAULT that was asked for, and does nothing in a run of these settings
/// whose ranks, if there are several, are threads. An environment's --comm-timeout is for many commands, and is passed over.
std::vector<std::string> idle_words(const Options&, const Environment&, const TrainSettings&);

}  // namespace tern
