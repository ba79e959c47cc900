#include "model/saved_modules.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "base/error.h"
#include "base/wide_type.h"
#include "model/fragment.h"
#include "model/visit_weights.h"
#include "model/weights_file.h"
#include "model/whole_modules.h"

namespace tern {
namespace {

std::string module_of_tensor(const std::string& tensor) { return tensor.substr(0, tensor.rfind('.')); }

// Modules with tensors of these units that the adapter would not hold.
std::set<std::string> left_out(const ModelSpec& spec, const std::vector<WholeModule>& modules,
                               const std::set<int>& units) {
  std::set<std::string> saved, left;
  bool head = false;
  for (const WholeModule& m : modules) {
    for (const Fragment& f : m.saved) saved.insert(f.name);
    head |= m.is_tied_head;
  }
  for (const ParameterInfo& info : parameters(spec))
    if (units.contains(info.unit))
      for (const Fragment& f : info.fragments)
        if (!saved.contains(f.name)) left.insert(module_of_tensor(f.name));
  if (spec.head().tied && units.contains(0) && !head) left.insert(module_of_tensor(std::string(kTiedHead)));
  return left;
}

}  // namespace

ModelSpec with_saved_modules(ModelSpec spec, const PeftConfig& config, std::string_view where) {
  const int last = static_cast<int>(spec.units.size()) - 1;
  const std::vector<WholeModule> modules = whole_modules(spec, config, where);
  std::set<int> units;
  for (const WholeModule& m : modules) {
    if (m.low_rank)
      throw Error(ErrorKind::usage, "{}: '{}' would get a low rank; tables and the head are trained as a whole alone",
                  where, m.path);
    if (m.info.unit != 0 && m.info.unit != last)
      throw Error(ErrorKind::usage,
                  "{}: {} is a module of a layer, which low ranks change (--target); name tables of tokens or "
                  "positions, the last norm and the head",
                  where, module_of_tensor(m.saved.front().name));
    units.insert(m.info.unit);
  }
  if (spec.head().tied && !units.empty()) units = {0, last};
  const std::set<std::string> left = left_out(spec, modules, units);
  if (!left.empty())
    throw Error(ErrorKind::usage, "{} {}: is trained together with {}; name that too", where,
                fmt::join(config.saved, ","), fmt::join(left, ","));
  for (const int unit : units) spec.units[static_cast<size_t>(unit)].frozen = false;
  return spec;
}

std::vector<TensorToWrite> saved_module_entries(const ModelSpec& spec, const PeftConfig& config,
                                                const ModelWeights& weights) {
  ModelWeights handles = weights;
  for_each_linear(spec, handles, [](const ParameterInfo&, Linear& linear) {
    if (!std::holds_alternative<DenseWeight>(linear.weight)) linear.weight = DenseWeight{};
  });
  std::map<std::string, Tensor, std::less<>> numbers;
  for_each_parameter(spec, handles, [&](const ParameterInfo& info, Tensor& t) { numbers[info.name] = t; });
  std::vector<TensorToWrite> entries;
  for (const WholeModule& m : whole_modules(spec, config, "modules_to_save")) {
    const Tensor t = numbers.at(m.is_tied_head ? "embed.tokens" : m.info.name);
    std::map<std::string, std::vector<Fragment>> by_tensor;
    for (Fragment f : m.saved) {
      f.name = "base_model.model." + f.name;
      by_tensor[f.name].push_back(f);
    }
    for (const auto& [name, fragments] : by_tensor)
      entries.push_back(dense_tensor(
          m.info, fragments, [t] { return t; }, wide_type(t.dtype())));
  }
  return entries;
}

}  // namespace tern
