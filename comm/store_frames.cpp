#include <sys/socket.h>

#include <cerrno>

#include "comm/store_impl.h"

namespace tern {

bool StoreInput::fill(const Descriptor& d) {
  char buffer[4096];
  for (;;) {
    const ssize_t count = ::recv(d.get(), buffer, sizeof buffer, MSG_DONTWAIT);
    if (count > 0)
      bytes_.append(buffer, static_cast<size_t>(count));
    else if (count == 0 || errno != EINTR)
      return count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
  }
}

std::optional<StoreMessage> StoreInput::next() {
  constexpr uint32_t kMost = 1 << 20;
  uint32_t length = 0;
  if (bytes_.size() < sizeof length) return {};
  std::memcpy(&length, bytes_.data(), sizeof length);
  if (length < 1 || length > kMost)
    throw Error(ErrorKind::peer, "store: a message of {} bytes: no rank of tern sent it", length);
  if (bytes_.size() - sizeof length < length) return {};
  StoreMessage message(bytes_.substr(sizeof length, length));
  bytes_.erase(0, sizeof length + length);
  return message;
}

bool send_some(const Descriptor& d, std::string& bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::send(d.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
    bytes.erase(0, static_cast<size_t>(count));
  }
  return true;
}

}  // namespace tern
