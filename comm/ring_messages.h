#pragma once
// Messages around the ring of a group's ranks: from each to the next one, from the last to the first.

#include "comm/comm.h"

namespace tern {

/// One rank's end. The group has two or more ranks. All of them make equally many sends and receives in one order, of tensors of the same sizes.
/// Errors  the transport's.
class RingMessages {
 public:
  explicit RingMessages(Comm&);
  /// Takes back the messages that are still posted, if an exception ended a pass early.
  ~RingMessages();
  RingMessages(const RingMessages&) = delete;

  /// Sends to the next rank. The message is posted, not copied: the tensor's memory must stay as it is until settle has returned.
  void send(const Tensor&);
  /// Receives from the rank before.
  void receive(const Tensor&);
  /// Returns when the next rank has received what was sent, or the system has a copy. Every rank calls it after the same number of receives.
  void settle();

 private:
  Transport& transport_;
  int next_, before_;
  uint64_t sent_ = 0, received_ = 0;
  bool settled_ = true;
};

}  // namespace tern
