#include "serve/http.h"

#include <utility>  // before Asio 1.74, which leaves it out

#include <fmt/format.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <deque>
#include <sstream>
#include <unordered_set>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"

namespace tern {
namespace {

namespace net = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using tcp = net::ip::tcp;
using boost::system::error_code;

std::chrono::nanoseconds nanoseconds(double seconds) {
  return std::chrono::nanoseconds(static_cast<int64_t>(seconds * 1e9));
}

using ChunkHeaders = std::vector<std::pair<std::string, std::string>>;

// What a handler has to say, until the connection's coroutine has written it.
struct Outbox : Exchange {
  explicit Outbox(net::steady_timer& timer, int64_t most) : wake(&timer), most_pending(most) {}
  void reply(HttpReply r) override {
    if (ended) return;
    whole = std::move(r), ended = true;
    wake_up();
  }
  void begin_stream(ChunkHeaders h) override {
    headers = std::move(h), streams = true;
    wake_up();
  }
  void send(std::string_view piece) override {
    if (ended || gone) return;
    pending += piece;
    if (static_cast<int64_t>(pending.size()) > most_pending) return lose();
    wake_up();
  }
  void end() override {
    ended = true;
    wake_up();
  }
  void wake_up() {
    if (wake) wake->cancel();
  }
  // The client is gone, or as good as gone.
  void lose() {
    if (gone) return;
    gone = true;
    if (!ended && on_gone) std::exchange(on_gone, {})();
    wake_up();
  }

  net::steady_timer* wake;  // null once the connection has gone
  int64_t most_pending;
  std::optional<HttpReply> whole;
  ChunkHeaders headers;
  std::string pending;
  bool streams = false, ended = false, gone = false;
};

HttpRequest head_of(const http::request<http::string_body>& message) {
  const auto text = [](boost::string_view v) { return std::string(v.data(), v.size()); };
  HttpRequest r;
  r.method = text(message.method_string());
  r.path = text(message.target());
  r.path = r.path.substr(0, r.path.find('?'));
  r.host = text(message[http::field::host]);
  r.origin = text(message[http::field::origin]);
  r.authorization = text(message[http::field::authorization]);
  r.asked_method = text(message[http::field::access_control_request_method]);
  return r;
}

// Whether the peer has closed its side; what it sent before stays where it is, and does not hide it.
bool peer_closed(tcp::socket& socket, bool& has_data) {
  pollfd p{.fd = socket.native_handle(), .events = POLLIN | POLLRDHUP, .revents = 0};
  if (::poll(&p, 1, 0) < 0) return errno != EINTR;
  has_data = (p.revents & POLLIN) != 0;
  return (p.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL)) != 0;
}

constexpr int kPiece = 64 << 10;  // bytes whose writing may take HttpLimits::write_s
constexpr int kTurnedAwayGently = 32;
constexpr int kAcceptedAtOnce = 64;

}  // namespace

struct HttpServer::Impl {
  Impl(const HttpLimits& l, HttpHandlers h) : limits(l), handlers(std::move(h)), acceptor(io), grace(io) {}

  // Lives while its coroutines do.
  struct Connection {
    Connection(tcp::socket socket) : stream(std::move(socket)), wake(stream.get_executor()) {}
    beast::tcp_stream stream;
    beast::flat_buffer buffer;
    net::steady_timer wake;
    bool answers = false;  // something is being made or written for it
  };
  using Held = std::shared_ptr<Connection>;
  using Parser = http::request_parser<http::string_body>;

  net::awaitable<void> accept_all();
  net::awaitable<void> serve(Held);
  void take_what_is_here(Connection&);
  net::awaitable<bool> read_head(Connection&, Parser&);
  net::awaitable<bool> read_body(Held, Parser&);
  net::awaitable<bool> answer(Held, HttpRequest, unsigned version, bool keep_alive);
  net::awaitable<void> watch(Held, std::shared_ptr<Outbox>);
  net::awaitable<bool> write_reply(Connection&, HttpReply, unsigned version, bool keep_alive, bool with_body);
  net::awaitable<bool> write_stream(Connection&, std::shared_ptr<Outbox>, unsigned version);
  net::awaitable<bool> write_text(Connection&, std::string text);
  net::awaitable<void> close_gently(Connection&);
  net::awaitable<void> accept_some();
  void take_in(tcp::socket);
  net::awaitable<void> turn_away(Held);
  net::awaitable<void> fault(Connection&, int status, std::string message);

  HttpLimits limits;
  HttpHandlers handlers;
  net::io_context io{1};
  tcp::acceptor acceptor;
  net::steady_timer grace;
  std::unordered_set<Connection*> connections;
  int64_t bodies = 0;   // bytes that requests being read may have
  int turned_away = 0;  // connections that find no room, while they are told
  bool stopping = false;
};

HttpServer::HttpServer(const std::string& host, uint16_t port, const HttpLimits& limits, HttpHandlers handlers)
    : impl_(std::make_unique<Impl>(limits, std::move(handlers))) {
  error_code ec;
  tcp::resolver resolver(impl_->io);
  const auto found = resolver.resolve(host, std::to_string(port), tcp::resolver::passive, ec);
  if (ec || found.empty())
    throw Error(ErrorKind::usage, "--host {}: no address of this machine: {}", host, ec.message());
  const tcp::endpoint at = found.begin()->endpoint();
  impl_->acceptor.open(at.protocol(), ec);
  if (!ec) impl_->acceptor.set_option(net::socket_base::reuse_address(true), ec);
  if (!ec) impl_->acceptor.bind(at, ec);
  if (!ec) impl_->acceptor.listen(1024, ec);
  if (!ec) impl_->acceptor.non_blocking(true, ec);
  // Otherwise an accept that does not wait would wait behind a client that has gone.
  if (!ec) impl_->acceptor.set_option(net::socket_base::enable_connection_aborted(true), ec);
  if (ec)
    throw Error(ErrorKind::usage, "cannot listen on {} port {}: {}; give another --port (0: one that is free)", host,
                port, ec.message());
}

HttpServer::~HttpServer() = default;

uint16_t HttpServer::port() const { return impl_->acceptor.local_endpoint().port(); }
int64_t HttpServer::num_connections() const { return static_cast<int64_t>(impl_->connections.size()); }
void HttpServer::post(std::function<void()> task) { net::post(impl_->io, std::move(task)); }

void HttpServer::run() {
  net::co_spawn(impl_->io, impl_->accept_all(), net::detached);
  for (;;) try {
      impl_->io.run();
      return;
    } catch (const std::exception& e) {  // of one task; what others wait for goes on
      log_warn("a task of the server failed, which is a bug: {}", make_printable(e.what()));
    }
}

void HttpServer::stop(double grace_s) {
  post([impl = impl_.get(), grace_s] {
    impl->stopping = true;
    error_code ec;
    impl->acceptor.close(ec);
    for (Impl::Connection* c : impl->connections)
      if (!c->answers) c->stream.close();
    impl->grace.expires_after(nanoseconds(grace_s));
    impl->grace.async_wait([impl](error_code) { impl->io.stop(); });
    if (impl->connections.empty()) impl->io.stop();
  });
}

net::awaitable<void> HttpServer::Impl::accept_all() {
  while (!stopping) {
    bool failed = false;
    try {
      co_await accept_some();
    } catch (const std::exception&) { failed = true; }
    if (!failed || stopping) continue;
    error_code ec;  // no descriptors or memory, for example: who leaves makes room
    net::steady_timer pause(io, std::chrono::milliseconds(100));
    co_await pause.async_wait(net::redirect_error(net::use_awaitable, ec));
  }
}

// A turn of the queue is as long as what all streams have to say: of many who come together, with one a turn the last would
// wait for hundreds of turns.
net::awaitable<void> HttpServer::Impl::accept_some() {
  error_code ec;
  tcp::socket first(io);
  co_await acceptor.async_accept(first, net::redirect_error(net::use_awaitable, ec));
  if (stopping || ec == net::error::connection_aborted) co_return;
  if (ec) throw boost::system::system_error(ec);
  take_in(std::move(first));
  for (int others = 1; others < kAcceptedAtOnce; ++others) {
    tcp::socket next(io);
    acceptor.accept(next, ec);
    if (ec) co_return;  // nobody else is there, or the next wait says what is wrong
    take_in(std::move(next));
  }
}

void HttpServer::Impl::take_in(tcp::socket socket) {
  error_code ec;
  socket.non_blocking(true, ec);
  if (ec) return;  // it is gone
  socket.set_option(tcp::no_delay(true), ec);
  // Without it the system takes megabytes of what a slow client has not read, and says that there is room again when a third of
  // them are gone.
  const int unsent = 2 * kPiece;
  ::setsockopt(socket.native_handle(), IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof unsent);
  const Held held = std::make_shared<Connection>(std::move(socket));
  if (static_cast<int64_t>(connections.size()) >= limits.connections) {
    net::co_spawn(io, turn_away(held), net::detached);
    return;
  }
  connections.insert(held.get());
  net::co_spawn(io, serve(held), net::detached);
}

// Its answer is let arrive, as it may have sent a request already; only of so many at once, for they take descriptors beyond the
// limit.
net::awaitable<void> HttpServer::Impl::turn_away(Held held) {
  struct Counted {
    int& count;
    explicit Counted(int& c) : count(++c) {}
    ~Counted() { --count; }
  } const counted(turned_away);
  const bool gently = turned_away <= kTurnedAwayGently;
  HttpReply full = handlers.fault(503, "the server has as many connections as it takes; try again later");
  const bool written = co_await write_reply(*held, std::move(full), 11, false, true);
  if (written && gently) co_await close_gently(*held);
}

// Most clients send their request right behind the connection: it is read without a turn of the queue. Errors show in
// read_head.
void HttpServer::Impl::take_what_is_here(Connection& c) {
  error_code ec;
  const auto space = c.buffer.prepare(4096);
  c.buffer.commit(c.stream.socket().read_some(space, ec));
}

net::awaitable<void> HttpServer::Impl::serve(Held held) {
  Connection& c = *held;
  try {
    take_what_is_here(c);
    for (bool more = true; more && !stopping;) {
      Parser parser;
      parser.header_limit(static_cast<uint32_t>(limits.header_bytes));
      parser.body_limit(static_cast<uint64_t>(limits.body_bytes));
      const bool has_head = co_await read_head(c, parser);
      if (!has_head) break;
      HttpRequest request = head_of(parser.get());
      const unsigned version = parser.get().version();
      std::optional<HttpReply> refusal = handlers.refuse(request);
      if (refusal) {
        // A body that was not read cannot be parted from the next request.
        const bool keep = parser.is_done() && parser.keep_alive();
        c.answers = true;
        const bool written = co_await write_reply(c, std::move(*refusal), version, keep, request.method != "HEAD");
        more = written && keep;
        if (written && !keep) co_await close_gently(c);
        c.answers = false;
        continue;
      }
      const bool has_body = co_await read_body(held, parser);
      if (!has_body) break;
      request.body = std::move(parser.get().body());
      const bool keep = parser.keep_alive();
      more = co_await answer(held, std::move(request), version, keep);
    }
  } catch (const std::exception&) {
    // The connection ends here; whoever asked is told below.
  }
  connections.erase(held.get());
  error_code ec;
  c.stream.socket().shutdown(tcp::socket::shutdown_both, ec);
  c.stream.close();
  if (stopping && connections.empty()) io.stop();
}

net::awaitable<bool> HttpServer::Impl::read_head(Connection& c, Parser& parser) {
  error_code ec;
  if (c.buffer.size() == 0) {
    c.stream.expires_after(nanoseconds(limits.idle_s));
    const auto space = c.buffer.prepare(4096);
    const size_t n = co_await c.stream.async_read_some(space, net::redirect_error(net::use_awaitable, ec));
    if (ec) co_return false;
    c.buffer.commit(n);
  }
  c.buffer.consume(parser.put(c.buffer.data(), ec));  // a whole head, mostly
  if (ec == http::error::need_more) {
    ec = {};
    c.stream.expires_after(nanoseconds(limits.header_s));
    co_await http::async_read_header(c.stream, c.buffer, parser, net::redirect_error(net::use_awaitable, ec));
  }
  if (!ec) co_return true;
  if (ec == http::error::header_limit || ec == http::error::buffer_overflow)
    co_await fault(c, 431, fmt::format("the head of the request is over {} bytes", limits.header_bytes));
  else if (ec == http::error::body_limit)
    co_await fault(c, 413, fmt::format("the body of the request is over {} bytes (--max-body)", limits.body_bytes));
  else if (ec == beast::error::timeout)
    co_return false;
  else if (ec.category() == make_error_code(http::error::bad_method).category() && ec != http::error::end_of_stream &&
           ec != http::error::partial_message)
    co_await fault(c, 400, fmt::format("this is no HTTP request: {}", ec.message()));
  co_return false;
}

net::awaitable<bool> HttpServer::Impl::read_body(Held held, Parser& parser) {
  if (parser.is_done()) co_return true;
  Connection& c = *held;
  const boost::string_view expect = parser.get()[http::field::expect];
  if (beast::iequals(expect, "100-continue")) {
    const bool written = co_await write_text(c, "HTTP/1.1 100 Continue\r\n\r\n");
    if (!written) co_return false;
  }
  // What has come counts, not what is announced: who announces and does not send takes no room from others.
  struct Room {
    int64_t& all;
    int64_t own = 0;
    void grow_to(int64_t bytes) { all += bytes - own, own = bytes; }
    ~Room() { all -= own; }
  } room{bodies};
  error_code ec;
  const auto is_over = [&] {
    room.grow_to(static_cast<int64_t>(parser.get().body().size()));
    return bodies > limits.bodies_bytes;
  };
  constexpr std::string_view kOver = "the server is reading as much as it has room for; try again later";
  if (c.buffer.size() > 0) c.buffer.consume(parser.put(c.buffer.data(), ec));  // what came with the head
  if (ec == http::error::need_more) ec = {};
  if (is_over()) {
    co_await fault(c, 503, std::string(kOver));
    co_return false;
  }
  if (parser.is_done()) co_return true;
  // The stream's own limit of time would close the socket, and nobody could be told.
  enum class Reading { yes, late, over };
  const auto reading = std::make_shared<Reading>(Reading::yes);
  net::steady_timer timer(io, nanoseconds(limits.body_s));
  timer.async_wait([held, reading](error_code failed) {
    if (failed || *reading != Reading::yes) return;
    *reading = Reading::late;
    held->stream.cancel();
  });
  c.stream.expires_never();
  while (!ec && *reading == Reading::yes && !parser.is_done()) {
    co_await http::async_read_some(c.stream, c.buffer, parser, net::redirect_error(net::use_awaitable, ec));
    if (is_over()) {
      *reading = Reading::over;
      co_await fault(c, 503, std::string(kOver));
      co_return false;
    }
  }
  const bool late = std::exchange(*reading, Reading::over) == Reading::late;
  if (parser.is_done()) co_return true;
  if (late)
    co_await fault(c, 408, fmt::format("the body of the request was not here after {} s", limits.body_s));
  else if (ec == http::error::body_limit)
    co_await fault(c, 413, fmt::format("the body of the request is over {} bytes (--max-body)", limits.body_bytes));
  else if (ec != http::error::partial_message && ec != http::error::end_of_stream &&
           ec.category() == make_error_code(http::error::bad_method).category())
    co_await fault(c, 400, fmt::format("this is no HTTP request: {}", ec.message()));
  co_return false;
}

net::awaitable<bool> HttpServer::Impl::answer(Held held, HttpRequest request, unsigned version, bool keep_alive) {
  Connection& c = *held;
  const auto out = std::make_shared<Outbox>(c.wake, limits.pending_bytes);
  const bool with_body = request.method != "HEAD";
  c.answers = true;
  c.stream.expires_never();
  handlers.handle(std::move(request), out);
  if (!out->whole) net::co_spawn(io, watch(held, out), net::detached);
  while (!out->whole && !out->streams && !out->gone) {
    error_code ec;
    c.wake.expires_at(std::chrono::steady_clock::time_point::max());
    co_await c.wake.async_wait(net::redirect_error(net::use_awaitable, ec));
  }
  bool written = false;
  if (out->whole && !out->gone)
    written = co_await write_reply(c, std::move(*out->whole), version, keep_alive, with_body);
  else if (out->streams && !out->gone)
    written = co_await write_stream(c, out, version);
  if (!written) out->lose();
  out->wake = nullptr;
  error_code ec;
  c.stream.socket().cancel(ec);  // the watch
  c.answers = false;
  co_return written&& keep_alive && !(out->streams && version < 11);
}

// Notices that the client closes its side while an answer is made. What it sends meanwhile (the next request) stays.
net::awaitable<void> HttpServer::Impl::watch(Held held, std::shared_ptr<Outbox> out) {
  while (!out->gone) {
    error_code ec;
    co_await held->stream.socket().async_wait(tcp::socket::wait_read, net::redirect_error(net::use_awaitable, ec));
    if (ec || !out->wake) co_return;
    bool has_data = false;
    if (peer_closed(held->stream.socket(), has_data)) out->lose();
    if (!has_data) continue;
    // The next request is there already, so the socket stays readable: looked at from time to time.
    net::steady_timer pause(io, std::chrono::milliseconds(50));
    co_await pause.async_wait(net::redirect_error(net::use_awaitable, ec));
    if (!out->wake) co_return;
  }
}

net::awaitable<bool> HttpServer::Impl::write_text(Connection& c, std::string text) {
  const auto piece_at = [&](size_t at) {
    return net::const_buffer(text.data() + at, std::min<size_t>(kPiece, text.size() - at));
  };
  error_code ec;
  // The system takes most texts at once; only the rest waits for its client, and for a turn of the queue.
  size_t at = text.empty() ? 0 : c.stream.socket().send(piece_at(0), 0, ec);
  if (ec == net::error::would_block) ec = {};
  while (!ec && at < text.size()) {
    c.stream.expires_after(nanoseconds(limits.write_s));
    at += co_await net::async_write(c.stream, piece_at(at), net::redirect_error(net::use_awaitable, ec));
  }
  c.stream.expires_never();
  co_return !ec;
}

net::awaitable<bool> HttpServer::Impl::write_reply(Connection& c, HttpReply reply, unsigned version, bool keep_alive,
                                                   bool with_body) {
  http::response<http::empty_body> message{static_cast<http::status>(reply.status), version};
  message.set(http::field::server, "tern");
  if (!reply.type.empty()) message.set(http::field::content_type, reply.type);
  for (const auto& [name, value] : reply.headers) message.set(name, value);
  message.keep_alive(keep_alive && !stopping);
  if (reply.status != 204) message.content_length(reply.body.size());  // to HEAD what a GET would have given
  std::ostringstream head;
  head << message.base();
  std::string text = head.str();
  if (with_body) text += reply.body;
  const bool written = co_await write_text(c, std::move(text));
  co_return written;
}

// Chunked by hand: what gathered while the last piece was on its way goes out as one.
net::awaitable<bool> HttpServer::Impl::write_stream(Connection& c, std::shared_ptr<Outbox> out, unsigned version) {
  const bool chunked = version >= 11;
  std::string head =
      fmt::format("HTTP/1.{} 200 OK\r\nServer: tern\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\n",
                  chunked ? 1 : 0);
  for (const auto& [name, value] : out->headers) head += fmt::format("{}: {}\r\n", name, value);
  head += chunked ? "Transfer-Encoding: chunked\r\n\r\n" : "Connection: close\r\n\r\n";
  bool written = co_await write_text(c, std::move(head));
  while (written && !out->gone) {
    if (!out->pending.empty()) {
      std::string piece = std::exchange(out->pending, {});
      const bool is_last = out->ended;
      if (chunked) piece = fmt::format("{:x}\r\n{}\r\n{}", piece.size(), piece, is_last ? "0\r\n\r\n" : "");
      written = co_await write_text(c, std::move(piece));
      if (is_last) co_return written;
    } else if (out->ended) {
      if (chunked) written = co_await write_text(c, "0\r\n\r\n");
      co_return written;
    } else {
      error_code ec;
      c.wake.expires_at(std::chrono::steady_clock::time_point::max());
      co_await c.wake.async_wait(net::redirect_error(net::use_awaitable, ec));
    }
  }
  co_return false;
}

net::awaitable<void> HttpServer::Impl::fault(Connection& c, int status, std::string message) {
  c.answers = true;
  HttpReply reply = handlers.fault(status, message);
  const bool written = co_await write_reply(c, std::move(reply), 11, false, true);
  if (written) co_await close_gently(c);
  c.answers = false;
}

net::awaitable<void> HttpServer::Impl::close_gently(Connection& c) {
  // What is still on its way is taken for a moment: closing over unread bytes would reset the connection, and the client
  // might never see the answer.
  error_code ec;
  c.stream.socket().shutdown(tcp::socket::shutdown_send, ec);
  c.stream.expires_after(std::chrono::seconds(2));
  for (int64_t taken = 0; !ec && taken < limits.body_bytes * 4;) {
    c.buffer.clear();
    const auto space = c.buffer.prepare(65536);
    taken +=
        static_cast<int64_t>(co_await c.stream.async_read_some(space, net::redirect_error(net::use_awaitable, ec)));
  }
}

}  // namespace tern
