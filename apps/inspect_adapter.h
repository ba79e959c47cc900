#pragma once
// What `tern inspect` says of a PEFT directory.

#include <string>

namespace tern {

class Options;

/// Whether `path` is a PEFT directory and no model's: it has adapter_config.json and no config.json.
bool is_adapter_folder(const std::string& path);
/// Prints the adapter's rank, scale, targets and bytes, or with --json an object of them, and checks its numbers; whether it fits a model is not judged. Returns
/// the exit code. Errors  bad_file: a file that is missing or malformed, a number that is not finite.
int inspect_adapter(const Options&, const std::string& path);

}  // namespace tern
