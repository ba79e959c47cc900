#pragma once
// A model by its sizes alone, for verbs that read no weights.

#include <string>

#include "spec/model_spec.h"

namespace tern {

/// The model of a preset's name, a model directory, its config.json, or a .gguf file; a preset's name comes first.
/// Errors: bad_file, with the presets and the nearest name, for anything else; those of read_hf_config and gguf_config.
ModelSpec model_of(const std::string& name);

}  // namespace tern
