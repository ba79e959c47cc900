#pragma once
// What all transports share: texts about messages that a rank waits for, and a rank's messages to itself.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>

namespace tern {

/// For people: "all-gather 17 of rank 3", "all-gather 17 of any of 4 ranks".
std::string describe_awaited(std::span<const int> from, uint64_t tag);

/// Errors  TERN_CHECK: the message that came from rank `from` is not the message that `rank` expects.
void check_expected(int rank, int from, uint64_t tag, uint64_t length, uint64_t want_tag, size_t want_length);

/// A rank's messages to itself, in the order in which it sent them. They are not copied before receive, so the sender must keep the bytes.
class SelfMessages {
 public:
  explicit SelfMessages(int rank) : rank_(rank) {}
  void send(uint64_t tag, std::span<const std::byte> bytes) { messages_.push_back({tag, bytes}); }
  /// Copies the first message, which must be there. Errors: those of check_expected.
  void receive(uint64_t tag, std::span<std::byte> bytes);
  bool empty() const { return messages_.empty(); }
  void clear() noexcept { messages_.clear(); }

 private:
  struct Message {
    uint64_t tag;
    std::span<const std::byte> bytes;
  };
  int rank_;
  std::deque<Message> messages_;
};

}  // namespace tern
