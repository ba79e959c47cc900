#include "comm/socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <memory>

#include "base/error.h"

namespace tern {
namespace {

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

Addresses resolve(const HostPort& at, bool to_listen, std::string& why) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_family = AF_UNSPEC, hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | (to_listen ? AI_PASSIVE : 0);
  const std::string port = std::to_string(at.port);
  const int failed = ::getaddrinfo(at.host.empty() ? nullptr : at.host.c_str(), port.c_str(), &hints, &found);
  if (failed != 0) why = ::gai_strerror(failed);
  return {found, &::freeaddrinfo};
}

Descriptor socket_for(const addrinfo& a) {
  return Descriptor(::socket(a.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

void send_at_once(const Descriptor& d) {
  const int on = 1;
  ::setsockopt(d.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

bool wait_for(int descriptor, short events, double seconds) {
  pollfd p{descriptor, events, 0};
  return ::poll(&p, 1, static_cast<int>(std::ceil(1e3 * seconds))) > 0;
}

bool same_ends(const Descriptor& d) {
  sockaddr_storage here{}, there{};
  socklen_t here_size = sizeof here, there_size = sizeof there;
  ::getsockname(d.get(), reinterpret_cast<sockaddr*>(&here), &here_size);
  ::getpeername(d.get(), reinterpret_cast<sockaddr*>(&there), &there_size);
  return here_size == there_size && std::memcmp(&here, &there, here_size) == 0;
}

}  // namespace

void Descriptor::close() {
  if (number_ >= 0) ::close(number_);
  number_ = -1;
}

bool wait_readable(int descriptor, double seconds) { return wait_for(descriptor, POLLIN, seconds); }
bool wait_writable(int descriptor, double seconds) { return wait_for(descriptor, POLLOUT, seconds); }

std::string text_of(const HostPort& a) {
  return a.host.find(':') == std::string::npos ? fmt::format("{}:{}", a.host, a.port)
                                               : fmt::format("[{}]:{}", a.host, a.port);
}

HostPort parse_host_port(std::string_view text) {
  const size_t colon = text.rfind(':');
  const std::string_view digits = colon == text.npos ? "" : text.substr(colon + 1);
  std::string_view host = text.substr(0, colon == text.npos ? 0 : colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  int port = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (host.empty() || error != std::errc() || end != digits.data() + digits.size() || port < 1 || port > 65535)
    throw Error(ErrorKind::usage, "'{}': expected HOST:PORT, such as node1:29401", text);
  return {std::string(host), port};
}

Descriptor listen_at(const HostPort& at, int backlog, bool* port_taken) {
  std::string why;
  for (const Addresses all = resolve(at, true, why); const addrinfo* a = all.get();) {
    Descriptor d = socket_for(*a);
    const int on = 1;
    if (d.open()) ::setsockopt(d.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);  // after a run that has just ended
    if (d.open() && ::bind(d.get(), a->ai_addr, a->ai_addrlen) == 0 && ::listen(d.get(), backlog) == 0) return d;
    if (errno == EADDRINUSE && port_taken) {
      *port_taken = true;
      return {};
    }
    why = std::strerror(errno);
    break;
  }
  throw Error(ErrorKind::peer, "{}: cannot listen there: {}", text_of(at), why);
}

Descriptor accept_at(const Descriptor& listener) {
  Descriptor d(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (d.open()) send_at_once(d);
  return d;
}

Descriptor connect_once(const HostPort& at, double seconds, std::string* why) {
  const Addresses all = resolve(at, false, *why);
  for (const addrinfo* a = all.get(); a != nullptr; a = a->ai_next) {
    Descriptor d = socket_for(*a);
    int failure = d.open() && ::connect(d.get(), a->ai_addr, a->ai_addrlen) == 0 ? 0 : errno;
    if (failure == EINPROGRESS) {
      socklen_t size = sizeof failure;
      failure = ETIMEDOUT;
      if (wait_writable(d.get(), seconds)) ::getsockopt(d.get(), SOL_SOCKET, SO_ERROR, &failure, &size);
    }
    // Without a listener, a port of the range that the system chooses from may be given to this very end: connected to itself.
    if (failure == 0 && same_ends(d)) failure = ECONNREFUSED;
    if (failure == 0) {
      send_at_once(d);
      return d;
    }
    *why = std::strerror(failure);
  }
  return {};
}

bool is_known(const HostPort& at) {
  std::string why;
  return resolve(at, false, why) != nullptr;
}

HostPort own_address(const Descriptor& d) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  char host[NI_MAXHOST], port[NI_MAXSERV];
  auto* const at = reinterpret_cast<sockaddr*>(&address);
  TERN_CHECK(::getsockname(d.get(), at, &size) == 0 &&
                 ::getnameinfo(at, size, host, sizeof host, port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV) == 0,
             "own_address: descriptor {}", d.get());
  return {host, std::atoi(port)};
}

bool is_loopback(const std::string& host) {
  in_addr v4;
  in6_addr v6;
  if (host == "localhost") return true;
  if (::inet_pton(AF_INET, host.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  return ::inet_pton(AF_INET6, host.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

}  // namespace tern
