#pragma once
// What a forward or backward pass of a unit computes with, beside weights and rows.

#include <cstdint>
#include <optional>
#include <span>

#include "model/linear_weight.h"
#include "tensor/arena.h"
#include "tensor/tensor.h"

namespace tern {

/// Who multiplies. Evaluation and inference always use exact; fast takes oneDNN, unless own kernels were measured to be faster
/// (kernels/onednn/fast_matmul.h).
enum class Multiply : uint8_t { exact, fast };

/// Sees the inputs that linears multiply: for calibration and for methods that learn from inputs.
class InputObserver {
 public:
  virtual ~InputObserver() = default;
  /// `x` (T, in) are the rows that the linear is about to multiply.
  virtual void see(const Linear&, const Tensor& x) = 0;
};

struct TensorRanks;   // model/tensor_ranks.h
struct ContextRanks;  // model/context_ranks.h
struct ExpertRanks;   // model/expert_ranks.h

/// What dropout of adapters (Branch::dropout) is keyed by: seed, step and the row's number in the step's
/// batch. So recomputing, resuming, or another split into micro-batches or ranks drops the same inputs.
struct DropoutPlace {
  uint64_t seed = 0;
  int64_t step = 0, first_row = 0;
  // Rows between a rank's two parts in a ring (ring_rows.h), else 0. Row i has number first_row + i; in the second part, + gap.
  int64_t gap = 0;
};

struct Compute {
  Arena& arena;
  Multiply multiply = Multiply::exact;
  InputObserver* observer = nullptr;
  /// For several adapters side by side (Branch::adapter): where the rows of each one begin, then where the last one's rows end.
  /// Rows before the first entry have none of them; empty: no row has. Branches with kEveryRow act on all rows in any case.
  std::span<const int64_t> adapter_rows = {};
  // In training only: the group of ranks that share out each matrix, and the rows between units. x, y and their gradients then
  // have this rank's rows alone, and the ModelSpec is this rank's part (tensor_part).
  const TensorRanks* tensor = nullptr;
  // In training only: the group of ranks that share out a micro-batch's rows (model/context_ranks.h). Rows then has this rank's tokens
  // and positions, but the starts of the whole micro-batch.
  const ContextRanks* context = nullptr;
  // In training only: the group of ranks that share out the experts of each mixture. Other ranks' experts have no weights here.
  const ExpertRanks* experts = nullptr;
  // In training only: what adapters' dropout is keyed by; absent: no input is dropped.
  std::optional<DropoutPlace> dropout = {};
};

}  // namespace tern
