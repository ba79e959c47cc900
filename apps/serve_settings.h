#pragma once
// Reads the options of a server: where it listens, whom it answers, and how much it takes.

#include "serve/service.h"

namespace tern {

class Options;

/// The settings that the options give. It also raises the process's limit of open files as far as it can, and tells the user if that is too low for
/// --max-connections. Errors: usage, bad_file, naming the option; does_not_fit: the process may open too few files.
ServiceSettings service_settings(const Options&);

}  // namespace tern
