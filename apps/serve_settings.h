#pragma once
// What a server is told by its options: where it listens, whom it answers, how much it takes.

#include "serve/service.h"

namespace tern {

class Options;

/// Raises the process's limit of open files as far as it may be, and tells where that is too low for --max-connections.
/// Errors: usage, bad_file, naming the option; does_not_fit, where the process may open too few files.
ServiceSettings service_settings(const Options&);

}  // namespace tern
