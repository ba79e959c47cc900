#pragma once
// What a file of results says of the files that it was made from.

#include <string>

#include "base/json.h"

namespace tern {

struct ModelDescription;

/// An object that changes when the file does: path, bytes, time of change. Of a model: of its weights, and of its adapter's
/// files.
Json file_identity(const std::string& path);
Json weights_identity(const ModelDescription&);

}  // namespace tern
