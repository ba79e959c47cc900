#pragma once
// A layer's whole weights, which a Program gathers for one pass (ZeRO 3).

#include <vector>

#include "exec/collective_parts.h"

namespace tern {

/// Whether the buffer holds gathered weights: a layer's dense ones, or those of its experts.
bool is_gathered(const Buffer&);

/// The gathered layers of one run of one Program. From `gather` to `end` ExecuteInput::own_weights holds the layer's whole weights;
/// before and after, it holds this rank's parts.
struct GatheredWeights {
  const ExecuteInput& in;
  const CollectiveParts& parts;
  std::vector<Tensor*> read{};  // by parameter: the tensor that the model's functions read

  /// Runs a GATHER of one pass: copies the parts of all ranks into one block of memory. All ranks of the instruction's axis call it.
  void gather(const Instruction&);
  /// Frees the buffer's whole weights and puts this rank's parts back.
  void end(const Buffer&);
  /// Errors  TERN_CHECK: the pass is through a unit whose weights are shared out and not gathered.
  void require_whole(const Instruction& pass) const;
};

}  // namespace tern
