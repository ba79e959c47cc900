#pragma once
// What `tern train` of this very program takes, in types that a plan's files know.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/dtype.h"
#include "spec/unit_cost.h"
#include "spec/update_rule.h"

namespace tern {

struct EngineJob {
  int64_t seq = 0, batch = 0, micro_batch = 0;
  DType dtype = DType::f32;
  Recompute recompute = Recompute::none;
  UpdateRule optimizer = UpdateRule::adamw;  // with its options' defaults
  bool saves = false;                        // a checkpoint on the way, not only after the last step
};
struct EngineMemory {
  std::vector<std::pair<std::string, int64_t>> classes;  // bytes: weights, gradients, …
  int64_t tensors = 0;                                   // at their most: what the Arena counts
};
/// Of train/fit.h's predict_memory, which the trainer asks before it allocates.
EngineMemory engine_memory(const ModelSpec&, const EngineJob&);

}  // namespace tern
