#include "model/given_weights.h"

#include "model/allocate_weights.h"
#include "model/ops.h"
#include "model/visit_weights.h"
#include "model/weights_file.h"

namespace tern {

bool is_given(const GivenWeights& given, const ModelWeights& weights, const ParameterInfo& info, Tensor& t, DType dtype,
              Arena& arena) {
  if (&t != &embed_of(weights).tokens) return given.matrices.contains(info.name);
  if (given.has_tokens()) t = arena.allocate(dtype, {0, info.shape[1]}, MemoryClass::weights);
  return given.has_tokens();
}

void add_coded(const ModelSpec& spec, const std::function<std::optional<CodedWeight>(const ParameterInfo&)>& coded,
               GivenWeights& given) {
  const std::string table = parameters(spec).front().name;
  for_each_codable(spec, [&](const ParameterInfo& info) {
    const bool is_table = info.name == table;
    if (is_table ? given.has_tokens() : given.matrices.contains(info.name)) return;
    const std::optional<CodedWeight> form = coded(info);
    if (!form) return;
    if (is_table) given.coded_tokens = *form;
    if (!is_table || spec.head().tied) given.matrices.emplace(info.name, *form);
  });
}

void put_given(const ModelSpec& spec, GivenWeights given, ModelWeights& weights) {
  share_storage(spec, weights);
  embed_of(weights).tokens_in_file = given.tokens;
  embed_of(weights).coded_tokens = given.coded_tokens;
  for_each_linear(spec, weights, [&](const ParameterInfo& info, Linear& linear) {
    if (const auto form = given.matrices.find(info.name); form != given.matrices.end())
      linear.weight = std::move(form->second);
  });
  if (given.in_integers) mark_integers(spec, weights);
}

}  // namespace tern
