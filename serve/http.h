#pragma once
// HTTP/1.1 over TCP: requests in, whole answers or streams out. The only file that knows Boost is http.cpp.

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
  std::string asked_method;  // Access-Control-Request-Method: of an OPTIONS that a browser sends first
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
  /// Sends the whole answer: at most once, and not beside a stream.
  virtual void reply(HttpReply) = 0;
  /// The head of a stream; `send` and `end` follow.
  virtual void begin_stream(std::vector<std::pair<std::string, std::string>> headers) = 0;
  virtual void send(std::string_view piece) = 0;
  virtual void end() = 0;
  /// Called once if the client goes, or reads too slowly, before the answer has ended.
  std::function<void()> on_gone;
};

struct HttpLimits {
  int64_t header_bytes = 8 << 10, body_bytes = 1 << 20;
  int64_t bodies_bytes = 64 << 20;  // of the bodies read so far, over all requests that are being read
  int64_t pending_bytes = 1 << 20;  // of an answer that its client does not take
  int64_t connections = 2048;
  double header_s = 10, body_s = 30, idle_s = 75;
  double write_s = 30;  // of each 64 KiB of an answer
};

struct HttpHandlers {
  /// Asked when the head of a request is there (its body is empty then). A reply refuses it: the body is not read.
  std::function<std::optional<HttpReply>(const HttpRequest&)> refuse;
  std::function<void(HttpRequest, std::shared_ptr<Exchange>)> handle;
  /// This layer's own answer to a head or a body that is too large, and to what is not HTTP.
  std::function<HttpReply(int status, std::string_view message)> fault;
};

class HttpServer {
 public:
  /// Listens at once; nothing is accepted before `run`. `port` 0: one that is free. Errors: usage, naming host and port.
  HttpServer(const std::string& host, uint16_t port, const HttpLimits&, HttpHandlers);
  ~HttpServer();
  uint16_t port() const;

  /// Serves on the calling thread until `stop`.
  void run();
  /// From any thread: runs `task` on the thread of `run`.
  void post(std::function<void()> task);
  /// From any thread: ends after answers that are complete are written, or after `grace_s`. Until then answers are
  /// written as long as their clients read.
  void stop(double grace_s);
  /// Of the I/O thread.
  int64_t num_connections() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tern
