#pragma once
// Weights that a caller already has, so that loading leaves them out.

#include <string>
#include <unordered_map>

#include "model/visit_weights.h"
#include "model/weights.h"
#include "spec/model_spec.h"
#include "tensor/arena.h"

namespace tern {

/// Weights that the caller gives to load_weights_to_infer, which then does not load them.
struct GivenWeights {
  std::unordered_map<std::string, Weight> matrices;  // by the parameter's name
  FileTable tokens;
  bool has_tokens() const { return tokens.rows.files != nullptr; }
};
ModelWeights load_weights_to_infer(const ModelSpec&, const std::string& model_dir, DType, Arena&, GivenWeights);
/// The last step of load_weights_to_infer: calls share_storage, then puts the given weights in their places.
void put_given(const ModelSpec&, GivenWeights, ModelWeights&);
/// Whether `given` has the parameter, so that its tensor `t` in `weights` need not be loaded. If it is
/// the table of tokens, `t` becomes a tensor of no rows; its dtype still says in which type to compute.
bool is_given(const GivenWeights& given, const ModelWeights& weights, const ParameterInfo&, Tensor& t, DType, Arena&);

}  // namespace tern
