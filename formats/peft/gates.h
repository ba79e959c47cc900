#pragma once
// gates.json of a directory of gated adapters (model/gated_adapter.h).

#include <cstdint>
#include <string>
#include <vector>

namespace tern {

/// What gates.json says.
struct GatesConfig {
  int64_t prompt_tokens = 0;
  std::vector<std::string> branches;  // names of directories beside the file
};
/// Errors  bad_file "PATH: KEY: …": no such format, a key that is missing or of another type, a name that leads
///         elsewhere.
GatesConfig read_gates_config(const std::string& path);
std::string gates_config_json(const GatesConfig&);

}  // namespace tern
