#pragma once
// Trains modules as a whole beside adapters, and saves them in a PEFT directory (modules_to_save):
// the tables of tokens and positions, the final norm and the head. model/whole_modules.h reads them.

#include <string_view>
#include <vector>

#include "formats/peft/config.h"
#include "formats/safetensors/write.h"
#include "model/weights.h"

namespace tern {

/// Returns the model frozen except for the units whose modules config.saved names: the tables, and the final norm with the head. A tied head and
/// its table are trained as one. Errors (messages begin with `where`): usage: a module inside a layer; a low-rank adapter on a table or the head;
/// only some of the modules that are trained together (the message names the others). bad_file: a name that is not the end of a module's path.
ModelSpec with_saved_modules(ModelSpec, const PeftConfig&, std::string_view where);

/// The tensors that a PEFT directory holds for config.saved, from `weights`, whose storage they share. f32, or f64 of f64 weights.
std::vector<TensorToWrite> saved_module_entries(const ModelSpec&, const PeftConfig&, const ModelWeights& weights);

}  // namespace tern
