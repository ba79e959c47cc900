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
  /// Places in the update's list of all parameters of a unit.
  std::vector<size_t> parameters_of(int unit) const;
  /// Of a collective over a layer: its dense parameters, or those of its experts.
  std::vector<size_t> parameters_of(const Instruction&) const;
  /// Whether the layer of units [first, end) has a copy of the embedding's table in another stage.
  bool holds_table_copy(int first, int end) const;
  Comm& group_of(MeshAxis) const;
  /// The ranks that have the same layers and the same part of each matrix.
  Comm& replicas() const { return in.replicas ? *in.replicas : *in.world; }
  /// What each rank gives or gets; empty: equal parts.
  std::vector<int64_t> bytes_of_parts(const Instruction&) const;
};

}  // namespace tern
