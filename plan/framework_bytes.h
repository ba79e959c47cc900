#pragma once
// What other frameworks keep of a unit for its backward (tern's own engine keeps less: spec/unit_cost.h), and how they
// keep weights and states. docs/framework-memory.md has the formulas, and published runs beside them.
// Source  Korthikanti et al. 2022, arXiv:2205.05198, section 4 (34·s·b·h bytes of a GPT block, taken apart); for
//         TorchTitan what PyTorch's operations save.

#include <cstdint>

#include "plan/frameworks.h"
#include "plan/sharing.h"
#include "spec/unit_cost.h"

namespace tern {

/// Settings of a framework's run on which its bytes depend. Emitted command lines use the defaults.
struct FrameworkRun {
  bool dropout = false;           // after attention, MLP and embedding
  bool sequence_parallel = true;  // rows outside attention and MLP are split over tensor ranks
  bool fused_attention = true;    // scores and probabilities are never kept
};

/// Bytes of one unit on one rank, for one micro-batch.
struct FrameworkUnit {
  int64_t saved = 0;      // until its backward, beside its input x
  int64_t output = 0;     // y, the next unit's x
  int64_t workspace = 0;  // during a pass, beside x, y, their gradients and what is saved
};

/// Whether there are formulas: yes for Megatron-LM and TorchTitan. With DeepSpeed the bytes depend on the user's model code.
bool has_own_bytes(Framework);
/// Bytes of a unit; meant for models that why_no_model allows. Errors: TERN_CHECK: a bridge, or a ParallelSpec.
FrameworkUnit framework_unit(Framework, const Unit&, const CostQuery&, const FrameworkRun& = {});
/// Bytes of weights, gradients and states as the framework keeps them, computed from tern's own bytes (`ours`).
SharedBytes framework_states(Framework, const TrainJob&, const SharedBytes& ours, int64_t parameters, int zero);

}  // namespace tern
