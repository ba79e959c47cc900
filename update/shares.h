#pragma once
// Which rank keeps which part of each parameter's optimizer state (spec/owner.h), and tensors that are cut in the same way.

#include <span>
#include <vector>

#include "comm/comm.h"
#include "model/visit_weights.h"
#include "model/weights.h"
#include "spec/owner.h"

namespace tern {

struct RankInterval {
  int rank;
  Interval elements;
};

/// Which replica keeps which elements of trained_parameters(spec). `rank`: this replica, of `ranks`. Replicas have
/// the same layers and the same part of each matrix (experts may differ). A parameter without owners is not shared out.
struct Shares {
  int rank = 0, ranks = 1;
  std::vector<std::vector<RankInterval>> owners{};  // ascending; empty: none

  bool is_shared(size_t parameter) const { return !owners.empty() && !owners[parameter].empty(); }
  std::vector<bool>
      gradients_apart{};  // for each unit whether its gradients are shared out too (ZeRO 2, 3); empty: no unit's are
  std::vector<bool>
      weights_apart{};  // for each unit whether its weights are shared out too (ZeRO 3); empty: no unit's are
  // held[p]: this rank has parameter p or a part of p. in_world[p]: which rank of the world keeps which elements of p (in a tensor
  // group: of this rank's part of p); one entry if one rank keeps them all. Both vectors are empty unless ranks have unlike parts (MeshPlace).
  std::vector<bool> held{};
  std::vector<std::vector<RankInterval>> in_world{};
  // Replicas r with equal r % expert_ranks have the same experts.
  int expert_ranks = 1;
  const std::vector<RankInterval>& keepers(size_t parameter) const;  // in_world[p]; if in_world is empty: owners[p]
  bool any() const;
  bool any_weights_apart() const;
  /// What this rank keeps of a parameter of `elements` elements.
  Interval mine(size_t parameter, int64_t elements) const;
};

/// With `zero` (LayerStrategy) >= 1 a unit's optimizer state is shared out over `ranks`, with 2 or 3 also its gradients, with 3 also
/// its weights. Dense parameters and experts' parameters are dealt separately. zero: one entry per unit. Errors:
/// usage: ZeRO 3 of a frozen unit, or of only one of a tied table's embedding and head.
Shares make_shares(const ModelSpec&, UpdateRule, std::span<const int> zero, int rank, int ranks);

/// A rank of a run whose ranks have unlike parts of the model (stages, tensor or expert groups). The rank's number:
/// (device · replicas + replica) · tensor_ranks + tensor_place. Place in the expert group: replica % expert_ranks.
struct MeshPlace {
  int device = 0, replica = 0, replicas = 1, tensor_place = 0, tensor_ranks = 1, expert_ranks = 1;
};
/// make_shares for the rank at a MeshPlace. The rank has its device's units and, on the head's device, a copy of a tied
/// table. In a tensor group it has parts of units (`spec` is tensor_part's), in an expert group some of the experts.
/// home: each unit's device. Errors: make_shares's; usage: ZeRO 2 or 3 of only one of a tied table's embedding and head.
Shares make_mesh_shares(const ModelSpec& spec, UpdateRule, std::span<const int> zero, std::span<const int> home,
                        const MeshPlace&);

/// Allocates this rank's weights, uninitialised, as allocate_weights does. Of a unit whose weights are shared out, it allocates
/// only this rank's parts: each parameter as one row of numbers (in its own shape if this rank keeps all of it; empty if this rank
/// has no element of it).
ModelWeights allocate_own_weights(const ModelSpec&, DType, Arena&, const Shares&,
                                  const std::vector<bool>& elsewhere = {});

/// Allocates this rank's gradients, as zeros. `without`, `elsewhere`: as for allocate_gradients.
ModelWeights allocate_own_gradients(const ModelSpec&, DType, Arena&, const Shares&, const std::vector<bool>& without,
                                    const std::vector<bool>& elsewhere = {});

/// Whether a parameter is an expert's. Fewer ranks may share such a parameter out than a dense one.
bool is_expert(const ParameterInfo&);
/// The place in the expert group of the rank that has an expert's parameter. Errors: TERN_CHECK: no expert's parameter.
int place_of_expert(const ModelSpec&, const ParameterInfo&, int expert_ranks);

/// Of a tensor that holds the whole parameter, this rank's part as one row of numbers; if the rank keeps all of the parameter, the tensor in its
/// own shape. A tensor that already holds only the part is returned as it is.
Tensor own_part(const Shares&, size_t parameter, int64_t elements, const Tensor&);

/// For each replica, views of the elements that it keeps in these tensors, for reduce_scatter_sum and all_gather. tensors[i]
/// is a whole tensor of parameter parameters[i].
RankParts parts_of(const Shares&, std::span<const size_t> parameters, std::span<const Tensor> tensors);

}  // namespace tern
