#pragma once
// Options of `tern train` that do nothing in a run in one process, because they are for several ranks or for ranks that are processes.

#include <string>
#include <vector>

#include "base/options.h"
#include "train/settings.h"

namespace tern {

/// A sentence for people about each of --comm-timeout, --zero and TERN_FAULT that was asked for, and does nothing in a run of these settings
/// whose ranks, if there are several, are threads. An environment's --comm-timeout is for many commands, and is passed over.
std::vector<std::string> idle_words(const Options&, const Environment&, const TrainSettings&);

}  // namespace tern
