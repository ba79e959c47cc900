#pragma once
// Messages around the ring of a group's ranks: from each to the next one, from the last to the first.

#include "comm/comm.h"

namespace tern {

/// One rank's end. All ranks of the group send and receive equally often, in one order, tensors of the same sizes; two or more ranks.
/// Errors  the transport's.
class RingMessages {
 public:
  explicit RingMessages(Comm&);
  /// Takes back what is still posted, where an exception ends a pass early.
  ~RingMessages();
  RingMessages(const RingMessages&) = delete;

  /// To the next rank; posted, not copied: the tensor's memory must stay as it is until settle has returned.
  void send(const Tensor&);
  /// From the rank before.
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
