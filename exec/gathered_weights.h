#pragma once
// Whole weights of a layer that a Program brings together for one pass (ZeRO 3).

#include <vector>

#include "exec/collective_parts.h"

namespace tern {

bool is_gathered(const Buffer&);

/// The gathered layers of one run of one Program. ExecuteInput::own_weights holds a layer's whole weights until they
/// end, then this rank's parts again.
struct GatheredWeights {
  const ExecuteInput& in;
  const CollectiveParts& parts;
  std::vector<Tensor*> read{};  // where the model's functions read weights

  /// A GATHER of one pass: all ranks' parts in one stretch of memory. All ranks of `parts.replicas()` call it.
  void gather(const Instruction&);
  void end(const Buffer&);
};

}  // namespace tern
