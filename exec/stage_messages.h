#pragma once
// Messages between the stages of a pipeline, as one rank sends and takes them.

#include <map>
#include <utility>
#include <vector>

#include "exec/executor.h"

namespace tern {

/// The messages of one run of one Program. A message is named by its buffer. The messages of a stage come in the order in which
/// that stage's list sends them (ExecuteInput::arrivals). This rank's list may want them in another order: those that come too
/// early are kept.
struct StageMessages {
  const Program& program;
  const ExecuteInput& in;
  Arena memory{};                                  // apart from the counted buffers
  std::vector<Tensor> sent{};                      // copies, until the step ends
  std::vector<std::pair<Buffer, Tensor>> early{};  // received before this list wants them
  std::map<int, size_t> arrived{};                 // of each stage: how many of its messages
  LinkBytes expected{};                            // of all messages so far

  /// Uninitialised (tokens of the micro-batch, width); in a tensor group, this rank's tokens.
  Tensor memory_for(const Buffer&, Arena&) const;
  /// A SEND: posts a copy of `t`.
  void send(const Instruction&, const Tensor& t);
  /// A RECV: waits until `place` holds the buffer that the instruction names.
  void receive(const Instruction&, const Tensor& place);
};

/// The most that `memory` holds in a step of this Program (of all ranks), where all micro-batches are of one size.
int64_t stage_message_bytes(const Program& all, int rank);

}  // namespace tern
