#pragma once
// Weights that lie somewhere already, so that loading leaves them out.

#include <string>
#include <unordered_map>

#include "model/visit_weights.h"
#include "model/weights.h"
#include "spec/model_spec.h"
#include "tensor/arena.h"

namespace tern {

/// Weights that are given, so that load_weights_to_infer does not load them.
struct GivenWeights {
  std::unordered_map<std::string, Weight> matrices;  // by the parameter's name
  FileTable tokens;
  bool has_tokens() const { return tokens.rows.files != nullptr; }
};
ModelWeights load_weights_to_infer(const ModelSpec&, const std::string& model_dir, DType, Arena&, GivenWeights);
/// The last step of load_weights_to_infer: weights with two names share one storage, and given weights take their place.
void put_given(const ModelSpec&, GivenWeights, ModelWeights&);
/// Whether `given` has the parameter whose tensor in `weights` is `t`, so that it need not be loaded. If that is the table of
/// tokens, `t` becomes a tensor of no rows, whose dtype still says which type to compute in.
bool is_given(const GivenWeights& given, const ModelWeights& weights, const ParameterInfo&, Tensor& t, DType, Arena&);

}  // namespace tern
