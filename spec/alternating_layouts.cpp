#include "spec/alternating_layouts.h"

#include <algorithm>

#include "spec/operator_graph.h"

namespace tern {
namespace {

bool divides(int ranks, const GraphTensor& t, int dim) {
  if (dim > 0 || t.sections.empty()) return t.shape[static_cast<size_t>(dim)] % ranks == 0;
  return std::ranges::all_of(t.sections, [&](int64_t section) { return section % ranks == 0; });
}

}  // namespace

std::vector<ParameterLayout> alternating_layouts(const ModelSpec& spec, int ranks) {
  std::vector<ParameterLayout> layouts;
  for (size_t unit = 0; unit < spec.units.size(); ++unit) {
    int dim = 0;  // that the unit's next matrix is split by
    const GraphTensor* by_rows = nullptr;
    const OperatorGraph graph = operator_graph(spec, static_cast<int>(unit), ranks, 1);
    for (const GraphTensor& t : graph.tensors) {
      if (!t.is_parameter || std::ranges::find(layouts, t.name, &ParameterLayout::name) != layouts.end()) continue;
      AxisLayout kept = whole();
      if (t.is_matrix) {
        if (!divides(ranks, t, dim)) dim = 1 - dim;
        if (divides(ranks, t, dim)) kept = split(dim, dim == 0 ? t.sections : std::vector<int64_t>{});
        by_rows = kept == whole() || dim == 1 ? nullptr : &t;
        dim = 1 - dim;
      } else if (by_rows && t.name.ends_with(".bias") && t.shape[0] == by_rows->shape[0]) {
        kept = split(0, by_rows->sections);
      }
      layouts.push_back({t.name, static_cast<int>(unit), kept, kept});
    }
  }
  return layouts;
}

}  // namespace tern
