#pragma once
// Gradients that a Program keeps for one micro-batch and one layer alone: before SCATTER (ZeRO 2 and 3) takes them, and before an
// UPDATE within the backward does.

#include <utility>
#include <vector>

#include "exec/collective_parts.h"

namespace tern {

bool is_summand(const Buffer&);

/// The summands of one run of one Program. The model's functions add a pass's gradients to those of its micro-batch;
/// once these end, the model has no gradients there.
struct Summands {
  const ExecuteInput& in;
  const CollectiveParts& parts;
  std::vector<std::pair<Buffer, std::vector<Tensor>>> alive{};  // a tensor of each parameter of the layer
  std::vector<Tensor*> summed{};                                // where the model's functions add gradients to

  /// The gradients, zero, in one stretch of memory.
  void begin(const BufferBytes&);
  /// Before a pass that adds gradients: to those of its micro-batch.
  void put_before(const Instruction&);
  void end(const Buffer&);
  /// Those that the instruction, of a layer and a micro-batch, takes. Errors  TERN_CHECK: none are alive.
  const std::vector<Tensor>& of(const Instruction&) const;
  /// The SCATTER of these gradients, which names their parameters (CollectiveParts::parameters_of).
  static Instruction scatter_of(const Buffer&);

 private:
  // For a tied table's copy: the head's place.
  Tensor& summed_place(const Instruction& scatter, size_t parameter);
  int end_of_layer(int first) const;
  void put(const Buffer&, const std::vector<Tensor>&);
};

}  // namespace tern
