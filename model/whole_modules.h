#pragma once
// Modules that an adapter changes as a whole: those that PEFT saves whole (modules_to_save), and low-rank changes
// of tables of tokens or positions and of the head. In use, their numbers replace the model's own. Source: peft
// 0.21, ModulesToSaveWrapper, lora.Embedding. A name in modules_to_save is the end of a module's path, whatever
// comes before; all that such a module contains is saved with it. A table E (V, D) becomes E + scale·(B·A)ᵀ, A
// (rank, V), B (D, rank); with magnitudes m (DoRA) each of its D columns then has the length m. The head is
// changed like a layer's matrix. If the head is tied to the table, a change of one leaves the other as it was.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/peft/config.h"
#include "model/fragment.h"
#include "model/visit_weights.h"
#include "model/weights.h"

namespace tern {

/// A parameter that the adapter replaces as a whole or in part, or changes by a low-rank product.
struct WholeModule {
  ParameterInfo info = {};
  bool is_tied_head = false;         // the model's files have no tensor for it: it begins as a copy of the table
  std::vector<Fragment> saved = {};  // those of info.fragments that the adapter holds itself
  std::optional<PeftAdapter> low_rank = {};
  std::string path = {};  // of the module, if it has low_rank
};

/// The adapter's whole modules, in the order of the parameters. Errors: bad_file, whose message
/// begins with `where`: a name of modules_to_save that is not the end of any module's path.
std::vector<WholeModule> whole_modules(const ModelSpec&, const PeftConfig&, std::string_view where);

/// The names of the tensors in the directory that belong to whole modules. Errors: bad_file: no such file.
std::vector<std::string> whole_module_tensors(const ModelSpec&, const PeftConfig&, const std::string& dir);

/// Replaces the whole modules' parameters in `weights`, whatever their form, by dense ones; call pack_weights afterwards.
/// `model_dir`: the model's files, from which the parameters to be changed are read once more. Sums in f64, rounded once to `dtype`.
/// Order   each number by itself: the same bits for any number of threads.
/// Errors  bad_file naming file and tensor: one that is missing, of another shape or type, or that holds NaN or infinity.
void put_whole_modules(const ModelSpec&, const PeftConfig&, const std::string& dir, const std::string& model_dir,
                       DType dtype, ModelWeights& weights, Arena&);

/// Upper bound of the bytes that whole modules take beside the model's own.
int64_t whole_module_bytes(const ModelSpec&, const PeftConfig&, DType dtype);

/// Unties the head from the table of tokens if the adapter changes either. True: this call untied it.
bool untie_changed_head(const PeftConfig&, ModelSpec&);

}  // namespace tern
