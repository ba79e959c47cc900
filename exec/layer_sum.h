#pragma once
// The sum of a layer's gradients over the ranks that share it: a REDUCE or a SCATTER over replicas.

#include <utility>
#include <vector>

#include "exec/summands.h"

namespace tern {

/// What a REDUCE or SCATTER over replicas works on, found before the instruction runs, so that another thread can run it.
struct LayerSum {
  Comm& group;
  std::vector<Tensor> whole{};  // of a REDUCE: gradients that become the sum
  RankParts parts{};            // of a SCATTER: gradients by rank; this rank's part becomes the sum
  // Of a SCATTER of one micro-batch: pairs of this rank's part and the sum of earlier micro-batches, to which the part is added.
  std::vector<std::pair<Tensor, Tensor>> added{};

  /// Sums over the ranks of `group`, all of which call it. It starts no team of threads. Errors  the transport's.
  void exchange() const;
  /// After exchange: earlier = part + earlier for each pair of `added`, on the calling thread alone.
  void add() const;
};

/// The sum that the instruction asks for. Errors  TERN_CHECK: a micro-batch's SCATTER of a layer without a summand; a REDUCE of a layer
/// whose gradients are shared out.
LayerSum layer_sum(const Instruction&, const ExecuteInput&, const CollectiveParts&, const Summands&);

/// The tensors at these places of a list, in the order of `places`.
std::vector<Tensor> at_places(const std::vector<Tensor>& all, const std::vector<size_t>& places);

}  // namespace tern
