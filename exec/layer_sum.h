#pragma once
// The sum of a layer's gradients over the ranks that share it: a REDUCE or a SCATTER over replicas.

#include <utility>
#include <vector>

#include "exec/summands.h"

namespace tern {

/// What such an instruction takes, found before it runs, so that any one thread can run it.
struct LayerSum {
  Comm& group;
  std::vector<Tensor> whole{};  // of a REDUCE: become the sum
  RankParts parts{};            // of a SCATTER: this rank's becomes the sum
  // Of a SCATTER of one micro-batch: this rank's part of it, and the sum of the earlier ones, to which it has to be added.
  std::vector<std::pair<Tensor, Tensor>> added{};

  /// All ranks of the group call it. It starts no team of threads.
  void exchange() const;
  /// After it: earlier = part + earlier, on the calling thread alone.
  void add() const;
};

LayerSum layer_sum(const Instruction&, const ExecuteInput&, const CollectiveParts&, const Summands&);

std::vector<Tensor> at_places(const std::vector<Tensor>& all, const std::vector<size_t>& places);

}  // namespace tern
