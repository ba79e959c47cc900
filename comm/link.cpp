#include "comm/link.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstring>

#include "base/crc32c.h"
#include "comm/transport.h"

namespace tern {
namespace {

std::span<const std::byte> checked_part(const MessageHeader& h) {
  return std::as_bytes(std::span(&h, 1)).first(offsetof(MessageHeader, header_crc));
}

}  // namespace

void Link::post(uint64_t tag, std::span<const std::byte> bytes) {
  MessageHeader h{.magic = kMessageMagic,
                  .generation = generation_,
                  .tag = tag,
                  .length = bytes.size(),
                  .number = posted_++,
                  .payload_crc = crc32c(bytes)};
  h.header_crc = crc32c(checked_part(h));
  out_.push_back({h, bytes});
}

bool Link::send_some() {
  bool moved = false;
  while (!out_.empty() && !closed_) {
    Outgoing& o = out_.front();
    const auto head = std::as_bytes(std::span(&o.header, 1)).subspan(std::min(o.sent, sizeof o.header));
    const auto body = o.bytes.subspan(o.sent - std::min(o.sent, sizeof o.header));
    iovec parts[] = {{const_cast<std::byte*>(head.data()), head.size()},
                     {const_cast<std::byte*>(body.data()), body.size()}};
    msghdr message{};
    message.msg_iov = parts, message.msg_iovlen = 2;
    const ssize_t count = ::sendmsg(connection_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      closed_ = errno != EAGAIN && errno != EWOULDBLOCK;
      return moved;
    }
    moved = true;
    o.sent += static_cast<size_t>(count);
    if (o.sent < sizeof o.header + o.bytes.size()) continue;
    bytes_.sent += static_cast<int64_t>(o.bytes.size());
    out_.pop_front();
  }
  return moved;
}

void Link::cancel() {
  if (!out_.empty()) closed_ = true;  // numbers that the other end would miss
  out_.clear();
}

size_t Link::read_some(std::span<std::byte> room) {
  size_t total = 0;
  while (total < room.size() && !closed_) {
    const ssize_t count = ::recv(connection_.get(), room.data() + total, room.size() - total, MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      closed_ = count == 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
      break;
    }
    total += static_cast<size_t>(count);
  }
  return total;
}

bool Link::read_header() {
  if (header_read_ == sizeof in_) return true;
  header_read_ += read_some(std::as_writable_bytes(std::span(&in_, 1)).subspan(header_read_));
  if (header_read_ < sizeof in_) return false;
  if (in_.magic != kMessageMagic || crc32c(checked_part(in_)) != in_.header_crc)
    corruption_ = "the head of a message was changed on its way: its CRC-32C is another";
  else if (in_.generation != generation_ || in_.number != arrived_)
    corruption_ = fmt::format(
        "{} is number {} of generation {}, expected number {} of generation {}: a message was "
        "lost or repeated",
        describe_tag(in_.tag), in_.number, in_.generation, arrived_, generation_);
  return true;
}

bool Link::read_payload(std::span<std::byte> room, bool as_it_comes) {
  payload_read_ += read_some(room.subspan(payload_read_));
  if (payload_read_ < room.size()) return false;
  if (!as_it_comes && crc32c(room) != in_.payload_crc)
    corruption_ =
        fmt::format("{} of {} bytes was changed on its way: its CRC-32C is another", describe_tag(in_.tag), in_.length);
  bytes_.received += static_cast<int64_t>(room.size());
  header_read_ = payload_read_ = 0;
  ++arrived_;
  return true;
}

}  // namespace tern
