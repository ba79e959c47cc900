#pragma once
// Tensor parallelism from shapes alone, without a table and without a search.

#include <vector>

#include "spec/derived_layouts.h"
#include "spec/model_spec.h"

namespace tern {

/// Of each unit's matrices the first is split by rows, the next by columns, and so on in turns; of stacked matrices each is
/// split. If `ranks` does not divide this dim, the other dim is split; if `ranks` divides neither dim, the matrix stays whole. A bias is
/// split if its matrix is split by rows. All other vectors, and tables of positions, are whole. Parameters come in the order of use, a
/// tied table once. Source: Redco (Tan et al. 2023, arXiv:2310.16355), whose kernels are (in, out), ours (out, in).
/// Errors: usage: a unit without a graph (spec/operator_graph.h).
std::vector<ParameterLayout> alternating_layouts(const ModelSpec&, int ranks);

}  // namespace tern
