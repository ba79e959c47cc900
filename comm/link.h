#pragma once
// One connection between two ranks. Messages are sent as fast as the connection takes them, and received one at a time.

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>

#include "comm/socket.h"
#include "spec/collective_bytes.h"

namespace tern {

/// The header that precedes each message's payload, in the processor's byte order, which is little-endian.
struct MessageHeader {
  uint32_t magic = 0;  // kMessageMagic
  uint32_t generation = 0;
  uint64_t tag = 0, length = 0;
  uint64_t number = 0;       // serial number on this link, in this direction and generation
  uint32_t payload_crc = 0;  // CRC-32C
  uint32_t header_crc = 0;   // of all members before it
};
static_assert(sizeof(MessageHeader) == 40, "no padding: its bytes go over the wire");
inline constexpr uint32_t kMessageMagic = 0x4d4e5254;  // "TRNM"

/// No call waits. A link has ended if closed() is true, or if corruption() has a text. The text does not name the peer; callers add its rank.
class Link {
 public:
  Link() = default;
  Link(Descriptor connection, uint32_t generation) : connection_(std::move(connection)), generation_(generation) {}

  void post(uint64_t tag, std::span<const std::byte>);
  /// Sends as much as the connection takes; true if any byte went out.
  bool send_some();
  bool all_sent() const { return out_.empty(); }
  uint64_t next_tag_out() const { return out_.front().header.tag; }
  /// Drops all messages that are not completely sent. If there are any, the link then counts as closed, as the peer would miss them.
  void cancel();

  /// Reads what has arrived of the next message's header; true once the header is complete, and checked (corruption).
  bool read_header();
  const MessageHeader& header() const { return in_; }
  /// Reads what has arrived of that message's payload into `room`, which has the payload's length; true once the payload is complete
  /// and, unless `as_it_comes`, its CRC-32C is checked (corruption).
  bool read_payload(std::span<std::byte> room, bool as_it_comes = false);
  /// Bytes of the current message's payload that were read so far.
  size_t received() const { return payload_read_; }

  bool closed() const { return closed_; }                        // the other end is gone
  const std::string& corruption() const { return corruption_; }  // what is wrong with a message; empty: nothing
  int descriptor() const { return connection_.get(); }
  const LinkBytes& bytes() const { return bytes_; }

 private:
  struct Outgoing {
    MessageHeader header;
    std::span<const std::byte> bytes;
    size_t sent = 0;  // of header and bytes
  };
  size_t read_some(std::span<std::byte> room);

  Descriptor connection_;
  uint32_t generation_ = 0;
  std::deque<Outgoing> out_;
  uint64_t posted_ = 0, arrived_ = 0;  // messages
  MessageHeader in_;
  size_t header_read_ = 0, payload_read_ = 0;
  bool closed_ = false;
  std::string corruption_;
  LinkBytes bytes_;
};

}  // namespace tern
