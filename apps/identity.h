#pragma once
// Identities of the files from which a file of results was made.

#include <string>

#include "base/json.h"

namespace tern {

struct ModelDescription;

/// An object that changes when the file does: its path, bytes and time of change. For a model: the objects of the files of its weights and adapter.
Json file_identity(const std::string& path);
Json weights_identity(const ModelDescription&);

}  // namespace tern
