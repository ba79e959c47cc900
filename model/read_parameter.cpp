#include "model/read_parameter.h"

#include <string>
#include <unordered_map>

#include "model/visit_weights.h"

namespace tern {

ReadParameter parameters_of(const ModelSpec& spec, const ModelWeights& weights) {
  std::unordered_map<std::string, Tensor> by_name;
  ModelWeights handles = weights;  // the visitor hands out places; storage is shared
  for_each_parameter(spec, handles, [&](const ParameterInfo& info, Tensor& t) { by_name.emplace(info.name, t); });
  return [by_name = std::move(by_name)](const ParameterInfo& info) { return by_name.at(info.name); };
}

}  // namespace tern
