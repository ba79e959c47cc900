#pragma once
// Transport: sends messages between ranks; the collectives (comm/comm.h) are built on it. Ranks are threads of one process
// (comm/thread_world.h), or processes that send by TCP (comm/process_world.h) or by Open MPI (comm/mpi_world.h). Decorators slow a
// transport down, or make it fail (comm/decorators.h).

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "spec/collective_bytes.h"

namespace tern {

/// A message that rank `to` received with other bytes than rank `from` had sent.
struct ChangedMessage {
  int from = 0, to = 0;
  friend bool operator==(const ChangedMessage&, const ChangedMessage&) = default;
};

/// One rank's end, used by one thread at a time. Messages from one rank to another arrive in the order in which they were sent.
/// Tags    say what a message is for. A message with another tag or length than its receiver expects is a bug.
/// Errors  peer, from send and every call that waits: a rank has failed (abort), the deadline has passed, or no rank can go on.
///         The error names this rank and the reason; after a deadline also the rank and the message waited for. After the error the transport
///         cannot be used until all ranks have called reconfigure.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// Posts the bytes and returns at once. The bytes must stay unchanged until flush, flush_to or cancel has returned.
  virtual void send(int to, uint64_t tag, std::span<const std::byte>) = 0;
  virtual void recv(int from, uint64_t tag, std::span<std::byte>) = 0;
  /// Receives from the first rank of `from`, in that order, that has sent a message; waits until one has. Returns that rank.
  virtual int recv_any(std::span<const int> from, uint64_t tag, std::span<std::byte>) = 0;
  /// Whether a message from that rank has arrived.
  virtual bool poll(int from) = 0;
  /// Returns when this rank may reuse the memory of all that it sent: each message was received, or the system has a copy.
  virtual void flush() = 0;
  /// Takes back the messages that were sent but not received. For a rank that leaves early.
  virtual void cancel() noexcept = 0;

  /// Ends the waits of all ranks with an error that gives this reason. If several ranks call abort, the first reason counts.
  virtual void abort(const std::string& reason) noexcept = 0;
  /// Every rank calls reconfigure with the same number, higher than before. Afterwards failures are forgotten and no
  /// earlier message is left.
  virtual void reconfigure(int64_t generation) = 0;

  /// Payload sent to and received from rank `peer` so far; 0 if `peer` is this rank.
  virtual LinkBytes bytes(int peer) const = 0;

  /// Like flush, but only for the messages to `peers`. So a group of ranks need not wait for messages to other ranks.
  virtual void flush_to(std::span<const int> peers) = 0;

  /// Starts or stops the ledger of messages sent and received. While a ledger is kept, a changed payload is received
  /// without an error. All ranks of the world call keep_ledger at the same point, with no message under way.
  virtual void keep_ledger(bool) {}
  /// Returns a message that, since the last call, was received with other bytes than were sent; nullopt: there is none, or no ledger
  /// is kept (comm/ledger.h). All ranks call settle after they have received all messages, and all get the same answer.
  virtual std::optional<ChangedMessage> settle() { return {}; }
};

/// The kind of operation that a tag is for; tag_of adds the operation's number.
enum class MessageKind : uint8_t {
  reduce_scatter,
  all_gather,
  broadcast,
  all_to_all,
  integers,
  values,
  redistribute,
  stage,    // between stages of a pipeline
  receipt,  // between a server and its workers (train/async_messages.h)
  test,
  ledger,
  ring  // around the ranks of a group
};
constexpr uint64_t tag_of(MessageKind kind, uint64_t number) { return number << 8 | static_cast<uint64_t>(kind); }
std::string describe_tag(uint64_t tag);  // "all-gather 17"

}  // namespace tern
