#pragma once
// An HTTP/1.1 server over TCP. It takes requests and sends whole answers or streams. Only http.cpp uses Boost.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tern {

struct HttpRequest {
  std::string method, path;  // without the query
  std::string host, origin, authorization;
  // The header Access-Control-Request-Method of an OPTIONS request, which browsers send first.
  std::string asked_method;
  std::string body;
};
struct HttpReply {
  int status = 200;
  std::string type = "application/json", body = {};
  std::vector<std::pair<std::string, std::string>> headers = {};
};

/// A request that is being answered. Only the I/O thread may touch it.
class Exchange {
 public:
  virtual ~Exchange() = default;
  /// Sends the whole answer. It is called at most once, and not if there is a stream.
  virtual void reply(HttpReply) = 0;
  /// Sends the head of a stream. Calls of `send` and one of `end` follow.
  virtual void begin_stream(std::vector<std::pair<std::string, std::string>> headers) = 0;
  virtual void send(std::string_view piece) = 0;
  virtual void end() = 0;
  /// Called once if the client goes, or reads too slowly, before the answer has ended.
  std::function<void()> on_gone;
};

struct HttpLimits {
  int64_t header_bytes = 8 << 10, body_bytes = 1 << 20;
  int64_t bodies_bytes = 64 << 20;  // of all bodies together that are being read
  int64_t pending_bytes = 1 << 20;  // of an answer that its client does not take
  int64_t connections = 2048;
  double header_s = 10, body_s = 30, idle_s = 75;  // the most seconds to wait for a head, a body, the next request
  double write_s = 30;                             // the most seconds for each 64 KiB of an answer
};

struct HttpHandlers {
  /// Called when the head of a request has been read; its body is empty then. If it returns a reply, that is sent and the body is not read.
  std::function<std::optional<HttpReply>(const HttpRequest&)> refuse;
  std::function<void(HttpRequest, std::shared_ptr<Exchange>)> handle;
  /// Makes the reply to a head or a body that is too large, and to what is not HTTP.
  std::function<HttpReply(int status, std::string_view message)> fault;
};

class HttpServer {
 public:
  /// Listens at once, but accepts no connection before `run`. `port` 0: any free port. Errors: usage, naming host and port.
  HttpServer(const std::string& host, uint16_t port, const HttpLimits&, HttpHandlers);
  ~HttpServer();
  uint16_t port() const;

  /// Serves on the calling thread until `stop` is called.
  void run();
  /// Runs `task` on the thread of `run`. Any thread may call it.
  void post(std::function<void()> task);
  /// Any thread may call it. The server ends when all complete answers are written, or after `grace_s` seconds. Until then
  /// answers are written as long as their clients read.
  void stop(double grace_s);
  /// Only the I/O thread may call it.
  int64_t num_connections() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tern
