#pragma once
// Weights that a caller already has, so that loading leaves them out.

#include <functional>
#include <optional>
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
  CodedWeight coded_tokens;  // instead of `tokens`: the table as the file codes it
  // All other coded matrices are held and multiplied as WeightsIn::coded_int8 says; else they are decoded.
  bool in_integers = false;
  bool has_tokens() const { return tokens.rows.files != nullptr || !coded_tokens.pieces.empty(); }
};
ModelWeights load_weights_to_infer(const ModelSpec&, const std::string& model_dir, DType, Arena&, GivenWeights);
/// Adds the matrices that are not given and for which `coded` returns a coded form.
void add_coded(const ModelSpec&, const std::function<std::optional<CodedWeight>(const ParameterInfo&)>& coded,
               GivenWeights&);
/// The last step of load_weights_to_infer: calls share_storage, then puts the given weights in their places.
void put_given(const ModelSpec&, GivenWeights, ModelWeights&);
/// Whether `given` has the parameter, so that its tensor `t` in `weights` need not be loaded. If it is
/// the table of tokens, `t` becomes a tensor of no rows; its dtype still says in which type to compute.
bool is_given(const GivenWeights& given, const ModelWeights& weights, const ParameterInfo&, Tensor& t, DType, Arena&);

}  // namespace tern
