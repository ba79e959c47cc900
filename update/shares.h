#pragma once
// Which rank keeps which part of the optimizer's state (spec/owner.h), parameter by parameter.

#include <functional>
#include <span>
#include <vector>

#include "comm/comm.h"
#include "model/weights.h"
#include "spec/owner.h"

namespace tern {

struct RankInterval {
  int rank;
  Interval elements;
};

/// Of the parameters of trained_parameters(spec), in their order. Without owners a parameter is whole on every rank.
struct Shares {
  int rank = 0, ranks = 1;
  std::vector<std::vector<RankInterval>> owners{};  // ascending; empty: none

  bool is_shared(size_t parameter) const { return !owners.empty() && !owners[parameter].empty(); }
  std::vector<bool> gradients_apart{};  // of each unit: ZeRO 2, its gradients are shared out too; empty: of none
  std::vector<bool> weights_apart{};    // of each unit: ZeRO 3, its weights are shared out too; empty: of none
  // In pipelines, per parameter: whether this rank holds all of it, whichever rank owns it. Without pipelines empty.
  std::vector<bool> held{};
  bool any() const;
  bool any_weights_apart() const;
  /// What this rank keeps of a parameter of so many elements.
  Interval mine(size_t parameter, int64_t elements) const;
};

/// Parameters of the units whose `zero` (LayerStrategy) is 1 or more are shared out over `ranks`, from 2 on their gradients too, with
/// 3 their weights. Dense ones and those of experts are dealt apart. Shapes: zero: of each unit. Errors: usage: ZeRO 3 of a frozen unit,
/// or of only one of a tied table's embedding and head.
Shares make_shares(const ModelSpec&, UpdateRule, std::span<const int> zero, int rank, int ranks);

/// Of a pipeline of `stages` of `data` ranks each, rank = stage · data + d: a stage holds its units whole on each of its ranks, the
/// first of which is their owner; a tied table is held by the head's stage too. Shapes: stage: of each unit.
Shares make_stage_shares(const ModelSpec&, std::span<const int> stage, int data, int rank, int ranks);

/// Uninitialised weights of this rank, as allocate_weights makes them; but of units whose weights are shared out only this rank's
/// parts, each as one row of numbers (or whole, if it is not shared), empty where it has none.
ModelWeights allocate_own_weights(const ModelSpec&, DType, Arena&, const Shares&,
                                  const std::vector<bool>& elsewhere = {});

/// Whether a parameter is an expert's, which fewer ranks may share.
bool is_expert(const ParameterInfo&);

/// This rank's part of a tensor that is the whole parameter, as one row of numbers; of one that is the part already, the tensor.
Tensor own_part(const Shares&, size_t parameter, int64_t elements, const Tensor&);

/// Views of the elements of whole parameters by who keeps them, for reduce_scatter_sum and all_gather: tensors[i] is of
/// parameter parameters[i].
RankParts parts_of(const Shares&, std::span<const size_t> parameters, std::span<const Tensor> tensors);

/// `count` doubles for each block of kUpdateBlock elements of the parameters, parameter after parameter. `fill` makes those of this
/// rank's blocks (parameter, the block in this rank's interval, count numbers to be set); those of other ranks are exchanged.
/// Errors  TERN_CHECK: shared parameters, but no world.
std::vector<double> block_values(const Shares&, std::span<const size_t> parameters, std::span<const int64_t> elements,
                                 int count, Comm* world, const std::function<void(size_t, int64_t, double*)>& fill);
/// Bytes that each rank contributes to that exchange: the argument of all_gather_bytes.
std::vector<int64_t> block_value_bytes(const Shares&, std::span<const size_t> parameters, int count);

}  // namespace tern
