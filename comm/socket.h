#pragma once
// TCP sockets as values. The store (comm/store.h) and the transport between processes (comm/process_world.h) are built on them.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace tern {

/// Owns a file descriptor, and closes it.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() { close(); }
  Descriptor(Descriptor&& o) noexcept : number_(std::exchange(o.number_, -1)) {}
  Descriptor& operator=(Descriptor&& o) noexcept {
    if (this != &o) close(), number_ = std::exchange(o.number_, -1);
    return *this;
  }
  int get() const { return number_; }
  bool open() const { return number_ >= 0; }
  void close();

 private:
  int number_ = -1;
};

struct HostPort {
  std::string host;  // a name or an address
  int port = 0;
};
std::string text_of(const HostPort&);  // "node1:29401", "[::1]:29401"
/// Errors  usage, quoting the text: no host, no port of 1 to 65535.
HostPort parse_host_port(std::string_view);

/// Listens; accept_at on the result never waits. An empty host: every address of this machine; port 0: one that the system chooses.
/// Errors  peer, naming host, port and reason. A taken port is no error if `port_taken` is given: that becomes true.
Descriptor listen_at(const HostPort&, int backlog, bool* port_taken = nullptr);
/// The next connection, non-blocking and with TCP_NODELAY. Not open: no connection is waiting to be accepted.
Descriptor accept_at(const Descriptor& listener);
/// Tries to connect once, for at most `seconds`. Not open: the attempt failed; `why` then says why, in words.
Descriptor connect_once(const HostPort&, double seconds, std::string* why);
/// Whether the host is an address, or a name that this machine can resolve now.
bool is_known(const HostPort&);
/// The address of this end of the connection.
HostPort own_address(const Descriptor&);
/// Whether `host` is a loopback address: 127.0.0.0/8, ::1 or "localhost". Other names are not, whatever they begin with.
bool is_loopback(const std::string& host);

/// Waits at most `seconds` until the descriptor can be read (written); false: it still cannot.
bool wait_readable(int descriptor, double seconds);
bool wait_writable(int descriptor, double seconds);

}  // namespace tern
