#pragma once
// One connection between two ranks: messages go out when the connection takes them, and come in one at a time.

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>

#include "comm/socket.h"
#include "spec/collective_bytes.h"

namespace tern {

/// What stands before each message's bytes, little-endian as the processor is.
struct MessageHeader {
  uint32_t magic = 0;  // kMessageMagic
  uint32_t generation = 0;
  uint64_t tag = 0, length = 0;
  uint64_t number = 0;       // of the messages of this link, in this direction and generation
  uint32_t payload_crc = 0;  // CRC-32C
  uint32_t header_crc = 0;   // of all before it
};
static_assert(sizeof(MessageHeader) == 40, "no padding: its bytes go over the wire");
inline constexpr uint32_t kMessageMagic = 0x4d4e5254;  // "TRNM"

/// No call waits. A link ends by closed() or corruption(); only the caller knows which rank it led to and what it was for.
class Link {
 public:
  Link() = default;
  Link(Descriptor connection, uint32_t generation) : connection_(std::move(connection)), generation_(generation) {}

  void post(uint64_t tag, std::span<const std::byte>);
  /// Sends as much as the connection takes; true if any byte went out.
  bool send_some();
  bool all_sent() const { return out_.empty(); }
  uint64_t next_tag_out() const { return out_.front().header.tag; }
  /// Drops what is not sent yet. If a message had gone out in part, the link cannot be used any more.
  void cancel();

  /// Takes what has come of the next message's header; true once all of it is there, checked.
  bool read_header();
  const MessageHeader& header() const { return in_; }
  /// Reads on in the payload of that message, into `room`, which is as long as the payload; true once all is there and,
  /// unless `as_it_comes`, checked.
  bool read_payload(std::span<std::byte> room, bool as_it_comes = false);
  /// Payload bytes read so far of the present message.
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
