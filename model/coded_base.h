#pragma once
// A frozen model whose matrices stay as its files code them, so that adapters are trained in a fraction of the memory
// (QLoRA: Dettmers et al. 2023, arXiv:2305.14314 (recalled)). Forward and input gradient have the bits that decoded weights
// would give them.

#include <functional>
#include <string>
#include <unordered_map>

#include "model/visit_weights.h"
#include "model/weights.h"

namespace tern {

/// Sets Unit::stored for each frozen unit whose matrices are all coded in the model's files and take fewer bytes there
/// than as numbers of `dtype`; load_weights then leaves them coded. A tied head stays coded if its table does. Units
/// with experts, and all units in f64, are decoded. Reads headers alone. Errors: bad_file: files that cannot be read.
ModelSpec with_stored_matrices(ModelSpec, const std::string& model_dir, DType);
/// Whether any unit has Unit::stored.
bool has_stored_matrices(const ModelSpec&);

/// The weights that load_weights returns for such a model: the matrices in `stored` (by the
/// parameter's name) stay coded; all else is allocated and, except adapters, filled by `read`.
using StoredWeights = std::unordered_map<std::string, CodedWeight>;
ModelWeights weights_beside(const ModelSpec&, StoredWeights stored, DType,
                            const std::function<void(const ParameterInfo&, Tensor&)>& read, Arena&);
/// Calls `visit` for each parameter that stays coded.
void for_each_stored(const ModelSpec&, const std::function<void(const ParameterInfo&)>& visit);

}  // namespace tern
