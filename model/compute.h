#pragma once
// What a unit's forward and backward passes need beside weights and rows.

#include <cstdint>
#include <optional>
#include <span>

#include "model/linear_weight.h"
#include "tensor/arena.h"
#include "tensor/tensor.h"

namespace tern {

/// Which code multiplies. exact: our own kernels, which evaluation and inference always use. fast:
/// oneDNN, or our own kernels where they were measured to be faster (kernels/onednn/fast_matmul.h).
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

/// The key of the random numbers for adapters' dropout (Branch::dropout): seed, step and the row's number in the
/// step's batch. So recomputing, resuming, or another split into micro-batches or ranks drops the same inputs.
struct DropoutPlace {
  uint64_t seed = 0;
  int64_t step = 0, first_row = 0;
  // Rows between a rank's two parts in a ring (ring_rows.h), else 0. Row i has number first_row + i, in the second part first_row + gap + i.
  int64_t gap = 0;
};

struct Compute {
  Arena& arena;
  Multiply multiply = Multiply::exact;
  InputObserver* observer = nullptr;
  /// For several adapters side by side (Branch::adapter): the first row of each adapter, then the end of the last one's rows. Rows
  /// before the first entry have none of these adapters. If it is empty, no row has one. Branches with kEveryRow act on all rows in any case.
  std::span<const int64_t> adapter_rows = {};
  // In training only: the group of ranks that divide each matrix among them, and also the rows of each unit's input and output. Then
  // x, y and their gradients hold this rank's rows alone, and the ModelSpec is this rank's part (tensor_part).
  const TensorRanks* tensor = nullptr;
  // In training only: the group of ranks that divide a micro-batch's rows among them (model/context_ranks.h).
  // Then Rows holds this rank's tokens and positions, but the starts of the whole micro-batch.
  const ContextRanks* context = nullptr;
  // In training only: the group of ranks that divide each mixture's experts among them. Experts of other ranks have no weights here.
  const ExpertRanks* experts = nullptr;
  // In training only: the key of adapters' dropout; if absent, no input is dropped.
  std::optional<DropoutPlace> dropout = {};
};

}  // namespace tern
