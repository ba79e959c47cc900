#pragma once
// Reads and writes a model's branches from and to PEFT directories (formats/peft/): adapter_config.json,
// adapter_model.safetensors.

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
  std::vector<Fragment> out_rows;  // ranges of the matrix's rows, in order, and where each stands in the file's B
};
/// All places of a model, in the order of the units.
std::vector<AdaptedPlace> adapted_places(const ModelSpec&);

/// Which parts of an adapter a caller handles: matrices of layers, or also the modules that the adapter changes as a whole
/// (model/whole_modules.h), which the caller then puts into the weights.
enum class AdapterParts : uint8_t { matrices, all };
/// The model, frozen, with the configuration's adapters. Errors: bad_file, whose message begins with `where`: no module of the
/// model would get an adapter; the configuration changes modules as a whole, and the caller handles matrices only.
ModelSpec with_adapters(ModelSpec, const PeftConfig&, std::string_view where, AdapterParts = AdapterParts::matrices);

/// The two files of a PEFT directory. Errors: bad_file: there is no such directory, or one of them is missing.
std::string peft_config_file(const std::string& dir);
std::string peft_weights_file(const std::string& dir);

/// Fills the branches of `weights`, and allocates their tensors where there are none; where there are magnitudes, the rows
/// must have been measured before (model/row_lengths.h). Errors: bad_file naming file and tensor: one that is missing, of another
/// shape or type, that holds NaN or infinity, or that no branch claims and that is not one of `others`.
void load_adapters(const ModelSpec&, const std::string& dir, DType, ModelWeights& weights, Arena&,
                   const std::vector<std::string>& others = {});
/// The same for weights that may already have other adapters: the loaded branches become those of adapter `number`. `adapted`:
/// the model, in `model_dir`, with this adapter. The adapter's magnitudes become fixed factors of rows. Errors: as above.
void load_adapter_beside(const ModelSpec& adapted, const std::string& model_dir, const std::string& dir, DType,
                         int number, ModelWeights& weights, Arena&);
/// The branch as ordinary LoRA of the same scale, as other programs read it, in the wide type. Each column of A becomes `pool`
/// columns, divided by `pool`; each row of B becomes `repeat` equal rows; the shares of an elastic branch are worked into both.
/// A branch of plain LoRA comes back as it is.
Branch written_out(const Branch&, Arena&);
/// Writes both files, branches as written_out has them; `weights` may hold the branches alone. `whole_from`: the PEFT directory from which whole modules are copied,
/// byte for byte, where the configuration names such; if it is empty, modules_to_save come from `weights`. Errors: those of
/// write_safetensors.
void save_adapters(const ModelSpec&, const PeftConfig&, const ModelWeights& weights, const std::string& dir, Io&,
                   const std::string& whole_from = {});

}  // namespace tern
