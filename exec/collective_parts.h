#pragma once
// Which parameters a collective of a Program takes, which ranks take part, and how many bytes each of them gives or gets.

#include <cstdint>
#include <span>
#include <vector>

#include "exec/executor.h"
#include "plan/layers.h"

namespace tern {

/// The collectives of one run of one Program. A "place" is the index of a parameter in the update's list (OptimizerState::infos).
struct CollectiveParts {
  const Program& program;
  const ExecuteInput& in;
  std::vector<Layer> layers = layers_of(in.spec);

  int num_ranks() const { return in.world ? in.world->size() : 1; }
  bool pipelined() const { return program.num_ranks > 1; }
  DType wide() const;  // the type of gradients
  /// The places of all parameters of a unit, other ranks' experts included.
  std::vector<size_t> parameters_of(int unit) const;
  /// The places of the parameters that a collective over a layer takes: its dense ones, or those of its experts that this rank has. Errors  TERN_CHECK: no
  /// layer begins at the instruction's unit.
  std::vector<size_t> parameters_of(const Instruction&) const;
  /// Whether units [first, end) are the layer of a tied head whose copy of the embedding table is summed with that of another stage.
  bool holds_table_copy(int first, int end) const;
  /// The ranks over which an instruction of this axis works.
  Comm& group_of(MeshAxis) const;
  /// The ranks that have the same layers and the same part of each matrix.
  Comm& replicas() const { return in.replicas ? *in.replicas : *in.world; }
  /// parts_of (update/shares.h) for the ranks of group_of(axis): what each of them keeps of these parameters.
  RankParts parts_for(MeshAxis axis, std::span<const size_t> places, std::span<const Tensor> tensors) const;
  /// For each rank the bytes of its part; empty: all parts are equal.
  std::vector<int64_t> bytes_of_parts(const Instruction&) const;
};

}  // namespace tern
