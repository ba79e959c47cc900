#pragma once
// A unit as a graph of operators, and SBP's table of signatures: how the inputs and the output of an operator may lie along one
// axis of a mesh. Source: OneFlow (Yuan et al. 2021, arXiv:2110.15032).

#include <cstdint>
#include <string>
#include <vector>

#include "spec/layout.h"
#include "spec/model_spec.h"

namespace tern {

/// A parameter, or what an operator takes or gives. In shapes, T is the number of rows of a micro-batch.
struct GraphTensor {
  std::string name;  // of a parameter: as model/visit_weights.h has it
  std::vector<int64_t> shape;
  std::vector<int64_t> sections{};  // of stacked matrices (qkv, gate and up): their lengths in the dim that stacks them
  bool is_parameter = false;
  bool is_matrix = false;  // a parameter that multiplies rows, or the table of tokens
};

enum class OperatorKind : uint8_t {
  lookup,      // (T) ids, (V, D) table → (T, D)
  norm,        // (T, D), vectors (D) → (T, D)
  product,     // (T, K), (N, K) → (T, N)
  bias,        // (T, N), (N) → (T, N)
  attention,   // (T, C) queries, keys and values; norms of heads, sinks → (T, E)
  activation,  // (T, G) → (T, F)
  add,         // two (T, D) → (T, D)
  loss,        // (T, V) logits → (T)
};

struct GraphOperator {
  OperatorKind kind;
  std::vector<int> inputs;  // tensors
  int output;
  std::vector<int64_t> heads{};  // numbers of heads, if attention: the number of ranks that split it must divide each
};

struct OperatorGraph {
  std::vector<GraphTensor> tensors;
  std::vector<GraphOperator> operators;  // each after those whose outputs it takes
  int entry = -1, exit = -1;  // the (T, D) rows before and after the unit; −1: the unit is the first or the last
  int64_t sequences = 1;      // of the micro-batch: attention stays within each
};

/// Why a unit has no graph here ("has experts"), or "".
std::string why_no_graph(const Unit&);
/// The graph of unit `unit` of a model, for a micro-batch of `sequences` sequences with `rows` rows together.
/// Errors: usage: why_no_graph.
OperatorGraph operator_graph(const ModelSpec&, int unit, int64_t rows, int64_t sequences);

/// One row of the table.
struct Signature {
  std::vector<AxisLayout> inputs;
  AxisLayout output;
  AxisLayout output_gradient;               // as the backward takes it
  std::vector<AxisLayout> input_gradients;  // as the backward gives them
  bool is_divided = false;                  // no two ranks do the same work
  int64_t summed = 0;                       // f32 numbers that the operator itself sums over the ranks
};
/// All rows for an operator of a graph on `ranks` ranks.
std::vector<Signature> signatures(const OperatorGraph&, const GraphOperator&, int ranks);

}  // namespace tern
