#include "comm/self_messages.h"

#include <fmt/format.h>

#include <cstring>

#include "base/error.h"
#include "comm/transport.h"

namespace tern {

std::string describe_awaited(std::span<const int> from, uint64_t tag) {
  return from.size() == 1 ? fmt::format("{} of rank {}", describe_tag(tag), from[0])
                          : fmt::format("{} of any of {} ranks", describe_tag(tag), from.size());
}

void check_expected(int rank, int from, uint64_t tag, uint64_t length, uint64_t want_tag, size_t want_length) {
  TERN_CHECK(tag == want_tag && length == want_length,
             "rank {} expects {} of {} bytes from rank {}, which sent {} of {} bytes", rank, describe_tag(want_tag),
             want_length, from, describe_tag(tag), length);
}

void SelfMessages::receive(uint64_t tag, std::span<std::byte> bytes) {
  const Message m = messages_.front();
  check_expected(rank_, rank_, m.tag, m.bytes.size(), tag, bytes.size());
  messages_.pop_front();
  if (!bytes.empty()) std::memcpy(bytes.data(), m.bytes.data(), bytes.size());
}

}  // namespace tern
