#pragma once
// Messages between the devices of a pipeline, as one rank sends and receives them.

#include <map>
#include <utility>
#include <vector>

#include "exec/executor.h"

namespace tern {

/// The messages of one run of one Program. Each message carries one buffer, whose name is the message's name. The messages of a device
/// arrive in the order in which that device's list sends them (ExecuteInput::arrivals). This rank's list may need them in another
/// order: a message that arrives before it is needed is kept in `early`.
struct StageMessages {
  const Program& program;
  const ExecuteInput& in;
  Arena memory{};                                  // of the copies below, which the executor's counts leave out
  std::vector<Tensor> sent{};                      // copies of what was sent; they live until the step ends
  std::vector<std::pair<Buffer, Tensor>> early{};  // received before this rank's list needs them
  std::map<int, size_t> arrived{};                 // by device: how many of its messages this rank has received
  LinkBytes expected{};  // of all messages so far: message_bytes of those sent, the tensors' bytes of those received

  /// Uninitialised memory for a message, (tokens of the micro-batch, width). In a tensor group: of this rank's tokens alone.
  Tensor memory_for(const Buffer&, Arena&) const;
  /// Runs a SEND: posts a copy of `t`. Errors  the transport's.
  void send(const Instruction&, const Tensor& t);
  /// Runs a RECV: returns when `into` holds the buffer that the instruction names. Errors  the transport's.
  void receive(const Instruction&, const Tensor& into);
};

/// For each device of a pipeline the buffers that it sends to the device `rank`, in order. `all`: the Program of all devices (program/lower.h).
std::vector<std::vector<Buffer>> arrivals_of(const Program& all, int rank);

/// The peak of StageMessages::memory on the device `rank` of a pipeline in one step, in bytes, if all micro-batches have one size. `all`:
/// the Program of all devices.
int64_t stage_message_bytes(const Program& all, int rank);

}  // namespace tern
