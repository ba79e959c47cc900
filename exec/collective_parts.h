#pragma once
// Whose parameters a collective of a Program takes, over which ranks, and what each of them gives or gets.

#include <cstdint>
#include <vector>

#include "exec/executor.h"
#include "plan/layers.h"

namespace tern {

struct CollectiveParts {
  const Program& program;
  const ExecuteInput& in;
  std::vector<Layer> layers = layers_of(in.spec);

  int num_ranks() const { return in.world ? in.world->size() : 1; }
  bool pipelined() const { return program.num_ranks > 1; }
  DType wide() const;  // of gradients
  /// The places of all of a unit's parameters in the update's list.
  std::vector<size_t> parameters_of(int unit) const;
  /// The places of the parameters that a collective over a layer takes: the dense ones, or those of the experts.
  std::vector<size_t> parameters_of(const Instruction&) const;
  /// Whether the layer of units [first, end) holds a copy of the embedding table, which lies in another stage.
  bool holds_table_copy(int first, int end) const;
  Comm& group_of(MeshAxis) const;
  /// The ranks that have the same layers and the same part of each matrix.
  Comm& replicas() const { return in.replicas ? *in.replicas : *in.world; }
  /// Bytes that each rank gives or gets; empty: all parts are equal.
  std::vector<int64_t> bytes_of_parts(const Instruction&) const;
};

}  // namespace tern
