// Any bytes at the socket of a server: an answer or an end, and the server goes on. The same bytes as a reply that a client reads.
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>

#include "base/error.h"
#include "serve/http.h"
#include "serve/load/reply_reader.h"

namespace {

using namespace tern;

constexpr HttpLimits kLimits{
    .header_bytes = 4096, .body_bytes = 16384, .bodies_bytes = 1 << 20, .header_s = 1, .body_s = 1, .idle_s = 1};

// What a handler may rely on.
void require(bool is) {
  if (!is) std::abort();
}

// A server that says whole answers and streams, on a thread of its own for the life of the process.
uint16_t server() {
  static HttpServer* const server = [] {
    auto* made = new HttpServer(
        "127.0.0.1", 0, kLimits,
        {.refuse =
             [](const HttpRequest& r) {
               require(r.body.empty());
               return r.path == "/refused" ? std::optional(HttpReply{.status = 403, .body = "{}"}) : std::nullopt;
             },
         .handle =
             [](HttpRequest r, std::shared_ptr<Exchange> exchange) {
               require(!r.method.empty() && r.path.find('?') == std::string::npos);
               require(r.body.size() <= static_cast<size_t>(kLimits.body_bytes));
               if (r.method != "POST") return exchange->reply({.body = r.path});
               exchange->begin_stream({{"X-Length", std::to_string(r.body.size())}});
               exchange->send(r.body.empty() ? "data: none\n\n" : r.body);
               exchange->end();
             },
         .fault =
             [](int status, std::string_view message) {
               require(status >= 400 && status < 600 && !message.empty());
               return HttpReply{.status = status, .body = "{}"};
             }});
    std::thread([made] { made->run(); }).detach();
    return made;
  }();
  return server->port();
}

// Sends all, says that nothing follows, and reads to the end. Returns what came.
std::string talk(std::string_view bytes) {
  sockaddr_in at{};
  at.sin_family = AF_INET, at.sin_port = htons(server()), at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  // Closing resets the connection: thousands of them leave no ports that wait.
  const linger at_once{.l_onoff = 1, .l_linger = 0};
  ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  const timeval patience{.tv_sec = 10, .tv_usec = 0};
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  std::string came;
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0) {
    while (!bytes.empty()) {
      const ssize_t n = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) break;
      bytes.remove_prefix(static_cast<size_t>(n));
    }
    ::shutdown(fd, SHUT_WR);
    char buffer[4096];
    ssize_t n;
    while ((n = ::recv(fd, buffer, sizeof buffer, 0)) > 0) came.append(buffer, static_cast<size_t>(n));
    require(n == 0 || errno != EAGAIN);  // it neither answers nor closes
  }
  ::close(fd);
  return came;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const std::string reply = talk(bytes);
  require(reply.empty() || reply.starts_with("HTTP/1."));
  static int count = 0;
  if (++count % 64 == 0) require(talk("GET /alive HTTP/1.1\r\nHost: a\r\n\r\n").ends_with("/alive"));
  for (const size_t piece : {size_t{1}, size_t{7}, size + 1}) {
    ReplyReader reader;
    try {
      for (size_t at = 0; at < size; at += piece) reader.take(bytes.substr(at, piece));
      reader.close();
    } catch (const Error& error) { require(error.kind() == ErrorKind::bad_file); }
    for (std::string event; reader.next_event(event);) require(event.size() <= size);
    require(reader.body().size() <= size);
  }
  return 0;
}
