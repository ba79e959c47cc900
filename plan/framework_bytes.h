#pragma once
// What other frameworks keep of a unit for its backward, where tern's own engine keeps less (spec/unit_cost.h), and how
// they keep weights. docs/framework-memory.md: the formulas, and published runs beside them.
// Source  Korthikanti et al. 2022, arXiv:2205.05198, section 4 (34·s·b·h bytes of a GPT block, taken apart); for
//         TorchTitan what PyTorch's operations save.

#include <cstdint>

#include "plan/frameworks.h"
#include "plan/sharing.h"
#include "spec/unit_cost.h"

namespace tern {

/// How a framework runs, where its bytes depend on it. What is emitted has the defaults.
struct FrameworkRun {
  bool dropout = false;           // behind attention, MLP and embedding
  bool sequence_parallel = true;  // rows outside attention and MLP are split over tensor ranks
  bool fused_attention = true;    // scores and probabilities are never kept
};

/// Bytes of one unit on one rank, for one micro-batch.
struct FrameworkUnit {
  int64_t saved = 0;      // until its backward, beside its input x
  int64_t output = 0;     // y, the next unit's x
  int64_t workspace = 0;  // in a pass, beside x, y, their gradients and what is saved
};

/// Whether there are formulas: Megatron-LM and TorchTitan. DeepSpeed's are those of the user's own model.
bool has_own_bytes(Framework);
/// Bytes of a unit, of a model that why_no_model lets pass. Errors: TERN_CHECK: a unit of another model.
FrameworkUnit framework_unit(Framework, const Unit&, const CostQuery&, const FrameworkRun& = {});
/// Bytes of weights, gradients and states as the framework keeps them, from tern's own bytes of the same (`ours`).
SharedBytes framework_states(Framework, const TrainJob&, const SharedBytes& ours, int64_t parameters, int zero);

}  // namespace tern
