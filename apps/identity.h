#pragma once
// What a file of results says of the files that it was made from.

#include <string>

#include "base/json.h"

namespace tern {

struct ModelDescription;

/// A text that changes when the file does: path, size, time of change; for a model, those of its weights.
Json file_identity(const std::string& path);
Json weights_identity(const ModelDescription&);

}  // namespace tern
