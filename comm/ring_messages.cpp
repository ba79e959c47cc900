#include "comm/ring_messages.h"

#include "base/error.h"
#include "tensor/bytes_of.h"

namespace tern {

RingMessages::RingMessages(Comm& comm)
    : transport_(comm.transport()),
      next_((comm.rank() + 1) % comm.size()),
      before_((comm.rank() + comm.size() - 1) % comm.size()) {
  TERN_CHECK(comm.size() > 1, "RingMessages: {} ranks", comm.size());
}

RingMessages::~RingMessages() {
  if (!settled_) transport_.cancel();
}

void RingMessages::send(const Tensor& t) {
  settled_ = false;
  transport_.send(next_, tag_of(MessageKind::ring, ++sent_), bytes_of(t));
}

void RingMessages::receive(const Tensor& t) {
  transport_.recv(before_, tag_of(MessageKind::ring, ++received_), bytes_of(t));
}

void RingMessages::settle() {
  transport_.flush_to({&next_, 1});
  settled_ = true;
}

}  // namespace tern
