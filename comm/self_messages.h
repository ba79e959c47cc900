#pragma once
// What transports have in common: words about messages that are awaited, and a rank's messages to itself.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>

namespace tern {

/// For people: "the sum of rank 3", "the sum of any of 4 ranks".
std::string describe_awaited(std::span<const int> from, uint64_t tag);

/// Errors  TERN_CHECK: the message that came is not the one that `rank` expects.
void check_expected(int rank, int from, uint64_t tag, uint64_t length, uint64_t want_tag, size_t want_length);

/// A rank's messages to itself, in the order in which it sent them. The bytes stay the sender's until they are received.
class SelfMessages {
 public:
  explicit SelfMessages(int rank) : rank_(rank) {}
  void send(uint64_t tag, std::span<const std::byte> bytes) { messages_.push_back({tag, bytes}); }
  /// Copies the first one, which must be there. Errors: those of check_expected.
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
