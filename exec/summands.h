#pragma once
// Summands: the gradients of one layer from one micro-batch alone, in memory of their own. They live until a SCATTER (ZeRO 2 and 3), or
// an UPDATE within the backward, has taken them.

#include <utility>
#include <vector>

#include "exec/collective_parts.h"

namespace tern {

/// Whether the buffer holds summands: those of a layer's dense parameters, or of its experts.
bool is_summand(const Buffer&);

/// The summands of one run of one Program. Before a pass that adds gradients `put_before` puts the summands of its layer and micro-batch into
/// ExecuteInput::gradients, so that the pass adds to the summands. `end` leaves empty tensors in ExecuteInput::gradients.
struct Summands {
  const ExecuteInput& in;
  const CollectiveParts& parts;
  std::vector<std::pair<Buffer, std::vector<Tensor>>> alive{};  // with each buffer: a tensor for each of its parameters
  // By parameter: its tensor in ExecuteInput::gradients, to which passes add; made at the first use
  std::vector<Tensor*> summed{};

  /// Makes the buffer's gradients, all zero, in one stretch of memory.
  void begin(const BufferBytes&);
  /// Called before a pass that adds gradients: directs its sums to the summands of its micro-batch, if its layer has any.
  void put_before(const Instruction&);
  /// Frees the buffer's gradients.
  void end(const Buffer&);
  /// The summands that the instruction takes, by its layer and micro-batch. Errors  TERN_CHECK: none are alive.
  const std::vector<Tensor>& of(const Instruction&) const;
  /// A SCATTER of the buffer. CollectiveParts::parameters_of takes it and gives the parameters whose gradients the buffer holds.
  static Instruction scatter_of(const Buffer&);

 private:
  // The parameter's tensor in ExecuteInput::gradients. For a tied table's copy on the head's device: the projection's tensor.
  Tensor& summed_place(const Instruction& scatter, size_t parameter);
  int end_of_layer(int first) const;
  void put(const Buffer&, const std::vector<Tensor>&);
};

}  // namespace tern
