#pragma once
// Layouts that nobody wrote down: of all ways in which a model's operators may lie on the ranks of one axis, the one that sends the
// fewest bytes. Megatron's tensor parallelism, with and without sequence parallelism, and ZeRO 3 are answers to three questions.

#include <cstdint>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "spec/layout.h"
#include "spec/model_spec.h"

namespace tern {

struct LayoutQuestion {
  int ranks = 1;
  int64_t rows = 0, sequences = 1;  // of a micro-batch, which all ranks compute together
  DType dtype = DType::bf16;        // of weights, rows and gradients
  bool matrices_in_parts = true;    // no rank keeps a whole matrix or table of tokens; false: it may
  bool all_in_parts = true;         // all operators are divided; false: products and attention alone must be
};

struct ParameterLayout {
  std::string name;
  int unit = 0;  // that uses it
  AxisLayout kept;
  AxisLayout used;  // in the unit's passes; if it is not `kept`, the tensor is turned for them (ZeRO 3)
};

struct DerivedLayouts {
  std::vector<ParameterLayout> parameters;        // in the order of use; a tied table at both ends
  std::vector<AxisLayout> rows;                   // behind each unit but the last
  int64_t forward_bytes = 0, backward_bytes = 0;  // sent by all ranks together, sums of weights' gradients included
};

/// The cheapest layouts. Within a unit every combination of signatures (spec/operator_graph.h) is tried; dynamic programming chooses
/// the layouts of the rows between units. A change of layout costs the bytes of `redistribution`. Embedding and head each pay for a tied
/// table. Among equally cheap layouts those come first whose parameters are used as they are kept, then those with fewer bytes on rank 0.
/// Errors: usage: fewer than two ranks; rows that are not whole sequences, or so many that bytes would not fit 62 bits; a unit without a
/// graph, or an encoder; attention that so many ranks cannot divide.
DerivedLayouts derive_layouts(const ModelSpec&, const LayoutQuestion&);

/// "B", "S(0)", "S(1) of 3 sections", "P".
std::string to_string(const AxisLayout&);

}  // namespace tern
