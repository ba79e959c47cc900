#pragma once
// Which parameters a collective of a Program takes, which ranks take part, and how many bytes each rank gives or gets.

#include <cstdint>
#include <span>
#include <vector>

#include "exec/executor.h"
#include "plan/layers.h"

namespace tern {

/// The collectives of one run of one Program. A place is a parameter's index in OptimizerState::infos.
struct CollectiveParts {
  const Program& program;
  const ExecuteInput& in;
  std::vector<Layer> layers = layers_of(in.spec);

  int num_ranks() const { return in.world ? in.world->size() : 1; }  // of the run
  bool pipelined() const { return program.num_ranks > 1; }           // program.num_ranks: devices of the pipeline
  DType wide() const;                                                // the type of gradients
  /// The places of all parameters of a unit, other ranks' experts included.
  std::vector<size_t> parameters_of(int unit) const;
  /// Places of the parameters that a collective over a layer takes: the layer's dense ones (with the table that a tied
  /// head reads or copies), or those of this rank's experts. Errors  TERN_CHECK: no layer begins at the instruction's unit.
  std::vector<size_t> parameters_of(const Instruction&) const;
  /// Whether units [first, end) are the layer of a tied head that has a copy of the table, whose gradient is summed over `tables`.
  bool holds_table_copy(int first, int end) const;
  /// The ranks that take part in a collective over this axis.
  Comm& group_of(MeshAxis) const;
  /// The ranks that have the same layers and the same part of each matrix as this rank.
  Comm& replicas() const { return in.replicas ? *in.replicas : *in.world; }
  /// What each rank of group_of(axis) keeps of these parameters (parts_of). Errors  TERN_CHECK: no parameter is shared out.
  RankParts parts_for(MeshAxis axis, std::span<const size_t> places, std::span<const Tensor> tensors) const;
  /// For each rank the bytes of its part. Empty: axis `none`; REDUCE, unless its axis is `all`; GATHER, SCATTER, UPDATE if nothing is shared out.
  std::vector<int64_t> bytes_of_parts(const Instruction&) const;
};

}  // namespace tern
