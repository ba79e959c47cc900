#include "apps/loopback.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "base/error.h"

namespace tern {
namespace {

class Socket {
 public:
  explicit Socket(int descriptor, const char* what) : descriptor_(descriptor) {
    if (descriptor < 0)
      throw Error(ErrorKind::peer, "profile: {} on 127.0.0.1: {}; is the loopback interface up?", what,
                  std::strerror(errno));
  }
  ~Socket() { ::close(descriptor_); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int get() const { return descriptor_; }
  bool send_all(const std::byte* data, size_t size) const {
    for (size_t at = 0; at < size;) {
      const ssize_t n = ::send(descriptor_, data + at, size - at, MSG_NOSIGNAL);
      if (n <= 0) return false;
      at += static_cast<size_t>(n);
    }
    return true;
  }
  bool receive_all(std::byte* data, size_t size) const {
    for (size_t at = 0; at < size;) {
      const ssize_t n = ::recv(descriptor_, data + at, size - at, 0);
      if (n <= 0) return false;
      at += static_cast<size_t>(n);
    }
    return true;
  }

 private:
  int descriptor_;
};

// One end here; the other receives `block` bytes and answers one, again and again, until this end goes away.
class Loopback {
 public:
  explicit Loopback(size_t block) : block_(block, std::byte{1}) {
    const Socket listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "a socket");
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const at = reinterpret_cast<sockaddr*>(&address);
    check(::bind(listener.get(), at, size), "bind");
    check(::listen(listener.get(), 1), "listen");
    check(::getsockname(listener.get(), at, &size), "getsockname");
    near_ = std::make_unique<Socket>(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "a socket");
    check(::connect(near_->get(), at, size), "connect");
    far_ = std::make_unique<Socket>(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC), "accept");
    const int on = 1;
    for (const Socket* s : {near_.get(), far_.get()})
      check(::setsockopt(s->get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on), "setsockopt");
    answering_ = std::thread([this, size_of_block = block] {
      std::vector<std::byte> received(size_of_block);
      const std::byte one{1};
      while (far_->receive_all(received.data(), received.size()) && far_->send_all(&one, 1)) {}
    });
  }
  ~Loopback() {
    ::shutdown(near_->get(), SHUT_RDWR);
    answering_.join();
  }
  Loopback(const Loopback&) = delete;
  Loopback& operator=(const Loopback&) = delete;

  void round_trip() {
    std::byte answer{};
    if (!near_->send_all(block_.data(), block_.size()) || !near_->receive_all(&answer, 1)) check(-1, "send");
  }

 private:
  static void check(int result, const char* what) {
    if (result != 0)
      throw Error(ErrorKind::peer, "profile: {} on 127.0.0.1: {}; is the loopback interface up?", what,
                  std::strerror(errno));
  }
  std::vector<std::byte> block_;
  std::unique_ptr<Socket> near_, far_;
  std::thread answering_;
};

constexpr size_t kBlock = size_t{16} << 20;

}  // namespace

BenchTask loopback_bandwidth_task() {
  const auto wire = std::make_shared<Loopback>(kBlock);
  return {.unit = "B/s",
          .once = [=] { return rate_of(static_cast<double>(kBlock), kTaskSeconds, [&] { wire->round_trip(); }); }};
}

BenchTask loopback_call_task() {
  const auto wire = std::make_shared<Loopback>(1);
  // There and back: two messages.
  return {.unit = "messages/s", .once = [=] { return rate_of(2, kPointSeconds, [&] { wire->round_trip(); }); }};
}

}  // namespace tern
