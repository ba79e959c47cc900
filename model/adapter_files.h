#pragma once
// Reads a model's adapter branches (Branch, model/linear_weight.h) from PEFT directories
// (formats/peft/) and writes them there, as adapter_config.json and adapter_model.safetensors.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "formats/peft/config.h"
#include "model/fragment.h"
#include "model/weights.h"

namespace tern {

class Io;

/// A matrix that can carry an adapter, as the model's files name it.
struct AdaptedPlace {
  int unit;
  AdaptedModule module;
  std::string path;                // "model.layers.0.self_attn.q_proj"
  std::vector<Fragment> out_rows;  // ranges of the module's rows, in order; the place of each in the file's B
};
/// All places of a model, in the order of the units.
std::vector<AdaptedPlace> adapted_places(const ModelSpec&);

/// Which parts of an adapter a caller handles. matrices: those of matrices of layers alone. all: also the modules
/// that the adapter changes as a whole (model/whole_modules.h); the caller then puts these into the weights.
enum class AdapterParts : uint8_t { matrices, all };
/// Returns the model, frozen, with the configuration's adapters. Errors: bad_file, whose message begins with `where`: no module
/// of the model would get an adapter, or the configuration changes modules as a whole but the caller handles matrices only.
ModelSpec with_adapters(ModelSpec, const PeftConfig&, std::string_view where, AdapterParts = AdapterParts::matrices);

/// The paths of the two files in a PEFT directory. Errors: bad_file: the directory or the file is missing.
std::string peft_config_file(const std::string& dir);
std::string peft_weights_file(const std::string& dir);

/// Fills the branches of `weights` from the PEFT directory `dir`, and allocates those of their tensors that are empty. Before
/// branches with magnitudes are filled, measure_rows must have been called (model/row_lengths.h). Errors: bad_file naming file and
/// tensor: a tensor is missing, has another shape or type, holds NaN or infinity, or belongs to no branch and is not one of `others`.
void load_adapters(const ModelSpec&, const std::string& dir, DType, ModelWeights& weights, Arena&,
                   const std::vector<std::string>& others = {});
/// Reads the adapter in `dir` and lets it go again, so that one which cannot be loaded is refused before anything large is. Of magnitudes it
/// looks at names and shapes. `adapted`: the model with this adapter. Errors: those of load_adapters.
void check_adapter(const ModelSpec& adapted, const std::string& dir, DType);
/// Adds a further adapter to weights that may already have others: the new branches are those of adapter `number` (Branch::adapter). `adapted`:
/// the model in `model_dir` with this adapter alone. Its magnitudes become fixed factors of rows (Branch::factors). Errors: as above.
void load_adapter_beside(const ModelSpec& adapted, const std::string& model_dir, const std::string& dir, DType,
                         int number, ModelWeights& weights, Arena&);
/// Returns the branch as ordinary LoRA of the same scale, which other programs read. Each column of A becomes `pool` columns,
/// divided by `pool`; each row of B becomes `repeat` equal rows; an elastic branch's shares β (model/elastic.h) are merged
/// into A and B. Changed matrices are of the wide type (base/wide_type.h); a branch of plain LoRA is returned as it is.
Branch written_out(const Branch&, Arena&);
/// Writes both files, with branches in the form that written_out gives them; `weights` may hold the branches
/// alone. `whole_from`: the PEFT directory from which modules that the configuration changes as a whole are
/// copied, byte for byte; if it is empty, modules_to_save come from `weights`. Errors: those of write_safetensors.
void save_adapters(const ModelSpec&, const PeftConfig&, const ModelWeights& weights, const std::string& dir, Io&,
                   const std::string& whole_from = {});

}  // namespace tern
