#pragma once
// Reads the options of a server: where it listens, whom it answers, and how much it takes.

#include "serve/service.h"

namespace tern {

class Options;

/// The settings that the options give. It also raises the process's limit of open files if --max-connections needs more; if the system allows too
/// few, it lowers the connections and tells the user. Errors: usage, bad_file, naming the option; does_not_fit: the process may open too few files.
ServiceSettings service_settings(const Options&);

}  // namespace tern
