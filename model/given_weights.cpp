#include "model/given_weights.h"

#include "model/allocate_weights.h"
#include "model/ops.h"
#include "model/visit_weights.h"

namespace tern {

bool is_given(const GivenWeights& given, const ModelWeights& weights, const ParameterInfo& info, Tensor& t, DType dtype,
              Arena& arena) {
  if (&t != &embed_of(weights).tokens) return given.matrices.contains(info.name);
  if (given.has_tokens()) t = arena.allocate(dtype, {0, info.shape[1]}, MemoryClass::weights);
  return given.has_tokens();
}

void put_given(const ModelSpec& spec, GivenWeights given, ModelWeights& weights) {
  share_storage(spec, weights);
  embed_of(weights).tokens_in_file = given.tokens;
  for_each_linear(spec, weights, [&](const ParameterInfo& info, Linear& linear) {
    if (const auto form = given.matrices.find(info.name); form != given.matrices.end())
      linear.weight = std::move(form->second);
  });
}

}  // namespace tern
