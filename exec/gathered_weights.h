#pragma once
// A layer's whole weights, which a Program brings together for one pass (ZeRO 3).

#include <vector>

#include "exec/collective_parts.h"

namespace tern {

/// Whether the buffer holds gathered weights: a layer's dense ones, or those of its experts.
bool is_gathered(const Buffer&);

/// The gathered layers of one run of one Program. From gather to end ExecuteInput::own_weights holds the layer's whole weights; before
/// and after, this rank's parts.
struct GatheredWeights {
  const ExecuteInput& in;
  const CollectiveParts& parts;
  std::vector<Tensor*> read{};  // by parameter: the tensor that the model's functions read

  /// Runs a GATHER of one pass: brings the ranks' parts into one stretch of memory. All ranks of parts.replicas() call it.
  void gather(const Instruction&);
  /// Ends the whole weights that the buffer names.
  void end(const Buffer&);
  /// Errors  TERN_CHECK: the instruction is a pass through a unit whose weights are shared out, and they have not come together.
  void require_whole(const Instruction& pass) const;
};

}  // namespace tern
