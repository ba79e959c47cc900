#pragma once
// Transports that wrap another transport: one has the speed of a given link, one fails on purpose.

#include <memory>
#include <string>

#include "base/clock.h"
#include "comm/transport.h"

namespace tern {

/// Passes every call on to the inner transport.
class TransportDecorator : public Transport {
 public:
  explicit TransportDecorator(std::unique_ptr<Transport> inner) : inner_(std::move(inner)) {}
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  void send(int to, uint64_t tag, std::span<const std::byte> bytes) override { inner_->send(to, tag, bytes); }
  void recv(int from, uint64_t tag, std::span<std::byte> bytes) override { inner_->recv(from, tag, bytes); }
  int recv_any(std::span<const int> from, uint64_t tag, std::span<std::byte> bytes) override {
    return inner_->recv_any(from, tag, bytes);
  }
  bool poll(int from) override { return inner_->poll(from); }
  void flush() override { inner_->flush(); }
  void flush_to(std::span<const int> peers) override { inner_->flush_to(peers); }
  void cancel() noexcept override { inner_->cancel(); }
  void abort(const std::string& reason) noexcept override { inner_->abort(reason); }
  void reconfigure(int64_t generation) override { inner_->reconfigure(generation); }
  LinkBytes bytes(int peer) const override { return inner_->bytes(peer); }
  void keep_ledger(bool keep) override { inner_->keep_ledger(keep); }
  std::optional<ChangedMessage> settle() override { return inner_->settle(); }

 protected:
  std::unique_ptr<Transport> inner_;
};

/// The speed of the one link over which all of a rank's messages leave, one after the other. A message takes
/// latency_s + bytes / bytes_per_s seconds.
struct Pace {
  double bytes_per_s = 0;
  double latency_s = 0;
};
/// A transport whose `send` returns when, by the clock, the link has carried the message.
std::unique_ptr<Transport> paced(std::unique_ptr<Transport>, Pace, Clock& = real_clock());

enum class TransportFaultKind : uint8_t {
  kill,       // the rank throws Error (peer)
  hang,       // it never comes back from the call
  corrupt,    // one bit of the payload changes in transit
  die,        // its process gets SIGKILL
  stop,       // its process gets SIGSTOP
  partition,  // nothing that it sends arrives any more
};
/// The fault happens at the rank's send number at_send, counted from 0.
struct TransportFault {
  TransportFaultKind kind = TransportFaultKind::kill;
  int64_t at_send = 0;
  std::optional<uint64_t> bit = {};  // corrupt: the bit, modulo their number; absent: the first of the middle byte
};
std::unique_ptr<Transport> faulty(std::unique_ptr<Transport>, TransportFault);

/// Wraps the transport in the faults that `text`, a comma-separated list, names for this rank. A fault is "die@RANK@SEND", "stop@RANK@SEND",
/// "partition@RANK@SEND", "corrupt@RANK@SEND", "corrupt@RANK@SEND@BIT" (modulo the payload's bits), or "slow@RANK@BYTES": a link of
/// BYTES bytes per second. RANK "*" means all ranks.
/// Returns the same transport if no fault names this rank. Errors: usage, quoting the fault: malformed, or a rank that the run does not have.
std::unique_ptr<Transport> with_fault(std::unique_ptr<Transport>, const std::string& text);

}  // namespace tern
