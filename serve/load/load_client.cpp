#include "serve/load/load_client.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "serve/load/reply_reader.h"

namespace tern {
namespace {

struct Resolved {
  sockaddr_storage address{};
  socklen_t length = 0;
};

Resolved resolve(const ServerAddress& server) {
  addrinfo wanted{}, *found = nullptr;
  wanted.ai_socktype = SOCK_STREAM;
  const int error = ::getaddrinfo(server.host.c_str(), fmt::format("{}", server.port).c_str(), &wanted, &found);
  if (error != 0 || !found)
    throw Error(ErrorKind::usage, "--url: {} has no address ({})", quote_json(server.host), ::gai_strerror(error));
  Resolved r;
  std::memcpy(&r.address, found->ai_addr, found->ai_addrlen), r.length = found->ai_addrlen;
  ::freeaddrinfo(found);
  return r;
}

std::string message(const ServerAddress& server, std::string_view method, std::string_view path,
                    std::string_view body) {
  return fmt::format(
      "{} {}{} HTTP/1.1\r\nHost: {}:{}\r\nConnection: close\r\n{}Content-Type: application/json\r\n"
      "Content-Length: {}\r\n\r\n{}",
      method, server.prefix, path, server.host, server.port,
      server.key.empty() ? "" : fmt::format("Authorization: Bearer {}\r\n", server.key), body.size(), body);
}

class Socket {
 public:
  Socket(const Resolved& to, int flags) : fd_(::socket(to.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | flags, 0)) {
    if (fd_ < 0) throw Error(ErrorKind::does_not_fit, "a connection: {}; raise ulimit -n", std::strerror(errno));
    const int on = 1;
    ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    const int result = ::connect(fd_, reinterpret_cast<const sockaddr*>(&to.address), to.length);
    if (result != 0 && errno != EINPROGRESS) error_ = std::strerror(errno);
  }
  ~Socket() { ::close(fd_); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int fd() const { return fd_; }
  const std::string& error() const { return error_; }

 private:
  int fd_;
  std::string error_;
};

// A request on its way.
struct Live {
  LoadRecord record;
  std::string out;  // not yet sent
  size_t sent = 0;
  ReplyReader reader;
  std::unique_ptr<Socket> socket;
  std::string failure;  // that the server told within a stream
};

std::string body_of(const LoadSettings& s, const LoadRequest& r, uint64_t number) {
  return dump_json({{"model", s.model},
                    {"prompt", r.prompt},
                    {"max_tokens", r.answer_tokens},
                    {"ignore_eos", true},
                    {"temperature", 1},
                    {"seed", number},
                    {"stream", true},
                    {"stream_options", {{"include_usage", true}}}});
}

// The load as it runs.
class Load {
 public:
  explicit Load(const LoadSettings& s)
      : s_(s), to_(resolve(s.server)), poll_(::epoll_create1(EPOLL_CLOEXEC)), begin_ns_(real_clock().now_ns()) {}
  ~Load() {
    live_.clear();
    ::close(poll_);
  }
  Load(const Load&) = delete;
  Load& operator=(const Load&) = delete;

  LoadResult run() {
    if (s_.mix.rate > 0) {
      next_ = request_of(s_.mix, 0), next_due_s_ = next_.gap_s;
    } else {
      for (int64_t k = 0; k < s_.users; ++k)
        due_.push_back(s_.ramp_s * static_cast<double>(k) / static_cast<double>(std::max<int64_t>(s_.users, 1)));
    }
    while (measured_ < s_.requests && !(s_.stop && s_.stop())) {
      send_due();
      wait();
    }
    return result();
  }

 private:
  bool open_loop() const { return s_.mix.rate > 0; }
  double now() const { return seconds_between(begin_ns_, real_clock().now_ns()); }
  bool is_measured(uint64_t number) const {
    const auto first = static_cast<uint64_t>(open_loop() ? 0 : s_.users);
    return number >= first && number < first + static_cast<uint64_t>(s_.requests);
  }

  void send_due() {
    if (open_loop()) {
      for (; next_due_s_ <= now(); next_ = request_of(s_.mix, ++number_), next_due_s_ += next_.gap_s)
        begin(next_, number_, next_due_s_);
      return;
    }
    for (size_t i = 0; i < due_.size();) {
      if (due_[i] > now()) {
        ++i;
        continue;
      }
      const double due_s = due_[i];
      due_.erase(due_.begin() + static_cast<std::ptrdiff_t>(i));
      const uint64_t number = number_++;
      begin(request_of(s_.mix, number), number, due_s);
    }
  }

  void begin(const LoadRequest& request, uint64_t number, double due_s) {
    auto live = std::make_unique<Live>();
    live->record = {.number = number,
                    .prompt_tokens = std::ssize(request.prompt),
                    .answer_tokens = request.answer_tokens,
                    .due_s = due_s,
                    .sent_s = now()};
    live->out = message(s_.server, "POST", "/v1/completions", body_of(s_, request, number));
    live->socket = std::make_unique<Socket>(to_, SOCK_NONBLOCK);
    if (!live->socket->error().empty()) return end(*live, live->socket->error());
    epoll_event event{.events = EPOLLIN | EPOLLOUT, .data = {.u64 = number}};
    ::epoll_ctl(poll_, EPOLL_CTL_ADD, live->socket->fd(), &event);
    live_.emplace(number, std::move(live));
  }

  double next_due() const {
    if (open_loop()) return next_due_s_;
    return due_.empty() ? now() + 0.1 : *std::min_element(due_.begin(), due_.end());
  }

  // Until something comes, or the next request is due.
  void wait() {
    const double left_s = std::clamp(next_due() - now(), 0.0, 0.1);
    epoll_event events[256];
    // Whole milliseconds at the least: below one it asks again at once rather than be late.
    const int count = ::epoll_wait(poll_, events, 256, static_cast<int>(left_s * 1e3));
    for (int i = 0; i < count; ++i) {
      const auto found = live_.find(events[i].data.u64);
      if (found == live_.end()) continue;
      Live& live = *found->second;
      std::string error;
      try {
        if (events[i].events & EPOLLOUT) write(live);
        if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) read(live);
      } catch (const Error& e) { error = e.what(); }
      if (!error.empty() || live.reader.done()) {
        end(live, error);
        live_.erase(found);
      }
    }
  }

  void write(Live& live) {
    const ssize_t n = ::send(live.socket->fd(), live.out.data() + live.sent, live.out.size() - live.sent, MSG_NOSIGNAL);
    if (n < 0 && errno != EAGAIN) throw Error(ErrorKind::peer, "{}", std::strerror(errno));
    if (n > 0) live.sent += static_cast<size_t>(n);
    if (live.sent < live.out.size()) return;
    epoll_event event{.events = EPOLLIN, .data = {.u64 = live.record.number}};
    ::epoll_ctl(poll_, EPOLL_CTL_MOD, live.socket->fd(), &event);
  }

  void read(Live& live) {
    char bytes[16384];
    for (;;) {
      const ssize_t n = ::recv(live.socket->fd(), bytes, sizeof bytes, 0);
      if (n < 0 && (errno == EAGAIN || errno == EINTR)) break;
      if (n < 0) throw Error(ErrorKind::peer, "{}", std::strerror(errno));
      if (n == 0) {
        live.reader.close();
        break;
      }
      live.reader.take({bytes, static_cast<size_t>(n)});
      if (static_cast<size_t>(n) < sizeof bytes) break;
    }
    if (live.reader.status() == 200)
      for (std::string data; live.reader.next_event(data);) take_event(live, data);
  }

  void take_event(Live& live, const std::string& data) {
    if (data == "[DONE]" || data.empty()) return;
    const Json event = parse_json(data, "an event of the server");
    if (event.contains("error")) live.failure = dump_json(event["error"]);
    if (event.contains("usage") && event["usage"].is_object())
      live.record.written_tokens = event["usage"].value("completion_tokens", int64_t{0});
    if (!event.contains("choices") || event["choices"].empty()) return;
    LoadRecord& r = live.record;
    const double at = now();
    if (r.first_s == 0)
      r.first_s = at;
    else
      r.longest_gap_s = std::max(r.longest_gap_s, at - r.last_s);
    r.last_s = at;
  }

  // Of a request that was never sent, too.
  void end(Live& live, std::string error) {
    LoadRecord& r = live.record;
    r.end_s = now(), r.status = live.reader.status();
    if (error.empty() && r.status != 200) error = fmt::format("{}: {}", r.status, live.reader.body().substr(0, 300));
    if (error.empty()) error = live.failure;
    if (error.empty() && r.first_s == 0) error = "an answer without a token";
    r.error = std::move(error);
    if (!open_loop()) due_.push_back(r.ok() ? r.end_s : r.end_s + kPauseAfterFailure);
    measured_ += is_measured(r.number);
    ended_.push_back(r);
  }

  LoadResult result() {
    LoadResult out;
    for (const LoadRecord& r : ended_)
      if (is_measured(r.number)) out.measured.push_back(r);
    std::ranges::sort(out.measured, {}, &LoadRecord::number);
    if (out.measured.empty()) return out;
    out.begin_s = std::ranges::min(out.measured, {}, &LoadRecord::due_s).due_s;
    out.end_s = std::ranges::max(out.measured, {}, &LoadRecord::end_s).end_s;
    const auto add_flight = [&](double begin_s, double end_s) {
      out.in_flight += std::max(0.0, std::min(end_s, out.end_s) - std::max(begin_s, out.begin_s));
    };
    for (const LoadRecord& r : ended_) {
      add_flight(r.due_s, r.end_s);
      if (!r.ok() || r.end_s < out.begin_s || r.end_s > out.end_s) continue;
      ++out.ended, out.ended_tokens += r.written_tokens, out.ended_prompt_tokens += r.prompt_tokens;
    }
    for (const auto& [number, live] : live_) add_flight(live->record.due_s, out.end_s);
    out.in_flight /= std::max(out.end_s - out.begin_s, 1e-9);
    return out;
  }

  static constexpr double kPauseAfterFailure = 0.1;  // of a user, so that a refusal is not asked for in a tight loop
  const LoadSettings& s_;
  Resolved to_;
  int poll_;
  int64_t begin_ns_;
  LoadRequest next_;
  double next_due_s_ = 0;
  std::vector<double> due_;  // of users that wait to ask
  uint64_t number_ = 0;
  int64_t measured_ = 0;  // that ended
  std::unordered_map<uint64_t, std::unique_ptr<Live>> live_;
  std::vector<LoadRecord> ended_;
};

}  // namespace

ServerAddress server_address(std::string_view url) {
  const auto refuse = [&](std::string_view why) {
    throw Error(ErrorKind::usage, "--url {}: {}; expected http://HOST:PORT", make_printable(url), why);
  };
  ServerAddress a;
  std::string_view rest = url;
  if (rest.starts_with("https://")) refuse("TLS is not spoken here");
  if (!rest.starts_with("http://")) refuse("is no address of a server");
  rest.remove_prefix(7);
  const size_t slash = rest.find('/');
  std::string_view host = rest.substr(0, slash), path = slash == std::string_view::npos ? "" : rest.substr(slash);
  while (path.ends_with('/')) path.remove_suffix(1);
  if (path.ends_with("/v1")) path.remove_suffix(3);
  a.prefix = path;
  std::string_view port;
  if (host.starts_with('[')) {
    const size_t close = host.find(']');
    if (close == std::string_view::npos) refuse("a bracket is not closed");
    port = host.substr(close + 1), host = host.substr(1, close - 1);
    if (port.starts_with(':')) port.remove_prefix(1);
  } else if (const size_t colon = host.find(':'); colon != std::string_view::npos) {
    port = host.substr(colon + 1), host = host.substr(0, colon);
  }
  a.host = host;
  if (a.host.empty()) refuse("names no host");
  if (port.empty()) return a;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), a.port);
  if (error != std::errc{} || end != port.data() + port.size() || a.port == 0)
    refuse("the port is no number below 65536");
  return a;
}

ServerReply ask_server(const ServerAddress& server, std::string_view method, std::string_view path,
                       std::string_view body) {
  const Socket socket(resolve(server), 0);
  const auto failed = [&](std::string_view why) {
    return Error(ErrorKind::peer, "http://{}:{}{}: {}", server.host, server.port, path, why);
  };
  if (!socket.error().empty()) throw failed(socket.error());
  const std::string out = message(server, method, path, body);
  for (size_t sent = 0; sent < out.size();) {
    const ssize_t n = ::send(socket.fd(), out.data() + sent, out.size() - sent, MSG_NOSIGNAL);
    if (n <= 0) throw failed(std::strerror(errno));
    sent += static_cast<size_t>(n);
  }
  ReplyReader reader;
  try {
    while (!reader.done()) {
      char bytes[16384];
      const ssize_t n = ::recv(socket.fd(), bytes, sizeof bytes, 0);
      if (n < 0) throw failed(std::strerror(errno));
      n == 0 ? reader.close() : reader.take({bytes, static_cast<size_t>(n)});
    }
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::peer) throw;
    throw failed(error.what());
  }
  return {reader.status(), std::move(reader.body())};
}

LoadResult run_load(const LoadSettings& settings) { return Load(settings).run(); }

}  // namespace tern
