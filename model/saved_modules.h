#pragma once
// Modules that are trained as a whole beside adapters and that a PEFT directory holds (modules_to_save): tables of tokens and positions,
// the final norm and the head. What is read of them: model/whole_modules.h.

#include <string_view>
#include <vector>

#include "formats/peft/config.h"
#include "formats/safetensors/write.h"
#include "model/weights.h"

namespace tern {

/// The frozen model, in which those units are trained whose modules config.saved names: the tables, and the final norm with the head. A
/// tied head is trained with its table, as one. Errors (their messages begin with `where`): usage: a module inside a layer; a low-rank adapter on
/// a table or the head; only some of the modules that are trained together (it names the others). bad_file: a name that ends no module.
ModelSpec with_saved_modules(ModelSpec, const PeftConfig&, std::string_view where);

/// The tensors of config.saved in a PEFT directory, from `weights`, whose tensors they share. f32, or f64 of such weights.
std::vector<TensorToWrite> saved_module_entries(const ModelSpec&, const PeftConfig&, const ModelWeights& weights);

}  // namespace tern
