#pragma once
// The messages between the store and its ranks: frames of a length, a verb and a body. A rank's first frame is `join`.

#include <chrono>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "comm/socket.h"

namespace tern {

using Seconds = std::chrono::duration<double>;
inline double now_s() { return Seconds(std::chrono::steady_clock::now().time_since_epoch()).count(); }

enum class StoreVerb : uint8_t {
  // rank to store
  join,         // token, rank, size, version
  set,          // key, value
  get,          // key; answered by `value` once it is there
  beat,         // the count of progress(), whether the rank waits, what for; answered by an empty beat
  abort,        // why, whether a person's settings are the cause
  reconfigure,  // generation
  leave,        // the rank's work is done
  // store to rank
  welcome,  // milliseconds of silence after which a rank is lost
  refused,  // why
  value,    // key, value
  failed,   // generation, rank, whether a person's settings are the cause, why
  go        // generation, to which all ranks have now come
};

/// A frame that is being written.
class StoreFrame {
 public:
  explicit StoreFrame(StoreVerb verb) : bytes_(4, '\0') { bytes_ += static_cast<char>(verb); }
  StoreFrame& text(std::string_view t) { return number(static_cast<int64_t>(t.size())), bytes_ += t, *this; }
  StoreFrame& number(int64_t n) {
    bytes_.append(reinterpret_cast<const char*>(&n), sizeof n);
    return *this;
  }
  /// Fills in the length. Returns the frame, ready to be sent.
  const std::string& bytes() {
    const auto length = static_cast<uint32_t>(bytes_.size() - 4);
    std::memcpy(bytes_.data(), &length, 4);
    return bytes_;
  }

 private:
  std::string bytes_;
};

/// A frame that was received. Errors: peer: the body ends early.
class StoreMessage {
 public:
  explicit StoreMessage(std::string body) : body_(std::move(body)) { take(1); }
  StoreVerb verb() const { return static_cast<StoreVerb>(body_[0]); }
  int64_t number() {
    int64_t n;
    std::memcpy(&n, take(sizeof n), sizeof n);
    return n;
  }
  std::string text() {
    const int64_t length = number();
    if (length < 0) bad();
    return {take(static_cast<size_t>(length)), static_cast<size_t>(length)};
  }

 private:
  const char* take(size_t count) {
    if (count > body_.size() - at_) bad();
    at_ += count;
    return body_.data() + at_ - count;
  }
  [[noreturn]] static void bad() { throw Error(ErrorKind::peer, "store: a message that ends early"); }

  std::string body_;
  size_t at_ = 0;
};

/// Bytes that have arrived on a connection, and that next() has not returned yet.
class StoreInput {
 public:
  /// Takes what has arrived, without waiting. False: the other end is gone.
  bool fill(const Descriptor&);
  /// The next frame; none: it has not arrived whole. Errors: peer: an empty frame, or one longer than 1 MiB; no rank sends such frames.
  std::optional<StoreMessage> next();

 private:
  std::string bytes_;
};

/// Sends as many of `bytes` as the connection takes now, and removes these from `bytes`. False: the other end is gone.
bool send_some(const Descriptor&, std::string& bytes);

}  // namespace tern
