#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <list>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "comm/store.h"
#include "comm/store_impl.h"

namespace tern {
namespace {

constexpr const char* kAnotherRun = "another run needs a MASTER_PORT of its own";

struct Client {
  Descriptor connection;
  StoreInput in{};
  std::string out{};
  int rank = -1;  // not joined yet
  int64_t generation = 0;
  std::vector<std::string> asked{};  // keys that it waits for
  double heard_s = now_s();
  bool waits = false, left = false, gone = false;
  double gone_s = 0;
  int64_t progress = 0;
  double moved_s = now_s();  // when it last did not wait, or waited and got on
  std::string awaits{};
};

}  // namespace

struct StoreServer::State {
  StoreConfig config;
  Descriptor listener{}, wake{};
  mutable std::mutex mutex{};
  std::list<Client> clients{};
  std::map<std::string, std::string> values{};
  std::optional<WorldFailure> failure{};
  std::set<int> came{};      // ranks that have joined, or were refused
  int64_t generation = 0;    // that all ranks have come to
  double moved_s = now_s();  // when the world itself changed: somebody came, or left
  bool stopping = false;
  std::jthread thread{};

  void run() {
    for (bool last = false; !last;) {
      std::vector<pollfd> polled{{listener.get(), POLLIN, 0}, {wake.get(), POLLIN, 0}};
      std::vector<Client*> of;
      {
        const std::scoped_lock lock(mutex);
        last = stopping;  // what ranks have said is still passed on
        for (Client& c : clients) {
          if (c.gone) continue;
          polled.push_back({c.connection.get(), static_cast<short>(POLLIN | (c.out.empty() ? 0 : POLLOUT)), 0});
          of.push_back(&c);
        }
      }
      const double tick_s = std::clamp(config.silence_s / 16, 0.01, 0.5);
      ::poll(polled.data(), polled.size(), last ? 0 : static_cast<int>(1e3 * tick_s));
      const std::scoped_lock lock(mutex);
      if (polled[1].revents != 0) {
        uint64_t count;
        [[maybe_unused]] const ssize_t ignored = ::read(wake.get(), &count, sizeof count);
      }
      for (size_t i = 0; i < of.size(); ++i)
        if (polled[i + 2].revents != 0) serve(*of[i]);
      if (polled[0].revents != 0)
        for (Descriptor d = accept_at(listener); d.open(); d = accept_at(listener)) clients.push_back({std::move(d)});
      judge();
      std::erase_if(clients, [](const Client& c) { return c.gone && c.rank < 0; });
      for (Client& c : clients)
        if (!c.gone) send_some(c.connection, c.out);
    }
  }

  void serve(Client& c) {
    bool open = c.in.fill(c.connection);
    try {
      while (std::optional<StoreMessage> m = c.in.next()) obey(c, *m);
    } catch (const Error& e) {
      open = false;
      if (c.rank >= 0) fail(c.rank, ErrorKind::peer, fmt::format("rank {}: {}", c.rank, e.what()));
    }
    if (!open) c.gone = true, c.gone_s = now_s();
  }

  void obey(Client& c, StoreMessage& m) {
    c.heard_s = now_s();
    if (c.rank < 0) {
      if (m.verb() == StoreVerb::join) join(c, m);
      return;
    }
    switch (m.verb()) {
      case StoreVerb::set: {
        const std::string key = m.text();
        values[key] = m.text();
        for (Client& other : clients) answer(other);
        break;
      }
      case StoreVerb::get:
        c.asked.push_back(m.text());
        answer(c);
        break;
      case StoreVerb::beat: {
        const int64_t progress = m.number();
        const bool waits = m.number() != 0;
        c.awaits = m.text();
        if (!waits || !c.waits || progress != c.progress) c.moved_s = now_s();
        c.waits = waits, c.progress = progress;
        c.out += StoreFrame(StoreVerb::beat).bytes();  // the store lives, too
        break;
      }
      case StoreVerb::abort: {
        std::string why = m.text();
        fail(c.rank, m.number() != 0 ? ErrorKind::usage : ErrorKind::peer, std::move(why));
        break;
      }
      case StoreVerb::reconfigure:
        c.generation = m.number();
        advance();
        if (failure && failure->generation == c.generation) tell(c);
        break;
      case StoreVerb::leave:
        c.left = true, moved_s = now_s();
        break;
      default:
        throw Error(ErrorKind::peer, "store: an unknown verb {}", static_cast<int>(m.verb()));
    }
  }

  bool all_have_joined() const {
    std::set<int> joined;
    for (const Client& c : clients)
      if (c.rank >= 0) joined.insert(c.rank);
    return static_cast<int>(joined.size()) == config.size;
  }

  // Who does not belong here is told why. So are the others if some are still to come: nobody knows which of two is right, and they
  // would wait in vain. A run that has all of its ranks goes on.
  void join(Client& c, StoreMessage& m) {
    const std::string token = m.text();
    const auto rank = static_cast<int>(m.number()), size = static_cast<int>(m.number());
    const std::string version = m.text();
    const bool complete = all_have_joined();
    std::string why;
    if (token != config.token) {
      c.out += StoreFrame(StoreVerb::refused).text("").bytes();  // of another run: it looks elsewhere
      return;
    }
    came.insert(rank);
    if (complete)
      why = fmt::format("its run has all of its ranks (0 to {}) already; {}", config.size - 1, kAnotherRun);
    else if (size != config.size)
      why = fmt::format("rank {} was started as one of {} ranks, this run has {}", rank, size, config.size);
    else if (version != TERN_VERSION)
      why = fmt::format("rank {} is tern {}, this run's store is tern {}; start the same program everywhere", rank,
                        version, TERN_VERSION);
    else if (rank < 0 || rank >= size)
      why = fmt::format("rank {} of {} ranks", rank, size);
    else if (std::ranges::any_of(clients, [&](const Client& o) { return o.rank == rank && !o.gone; }))
      why = fmt::format("two processes say that they are rank {}; {}", rank, kAnotherRun);
    if (!why.empty()) {
      c.out += StoreFrame(StoreVerb::refused).text(why).bytes();
      if (!complete) fail(-1, ErrorKind::usage, why);
      return;
    }
    c.rank = rank, c.generation = generation, c.heard_s = c.moved_s = moved_s = now_s();
    c.out += StoreFrame(StoreVerb::welcome).number(std::llround(1e3 * config.silence_s)).bytes();
    if (failure) tell(c);
  }

  void answer(Client& c) {
    std::erase_if(c.asked, [&](const std::string& key) {
      const auto found = values.find(key);
      if (found == values.end()) return false;
      c.out += StoreFrame(StoreVerb::value).text(key).text(found->second).bytes();
      return true;
    });
  }

  void tell(Client& c) {
    c.out += StoreFrame(StoreVerb::failed)
                 .number(failure->generation)
                 .number(failure->rank)
                 .number(failure->kind == ErrorKind::usage)
                 .text(failure->reason)
                 .bytes();
  }

  // In the rank's generation; one that has gone on to a later one is not concerned by what others still say of theirs.
  void fail(int rank, ErrorKind kind, std::string reason) {
    if (failure) return;
    failure = {.generation = generation, .rank = rank, .kind = kind, .reason = std::move(reason)};
    for (Client& c : clients)
      if (c.rank >= 0 && !c.gone) tell(c);
  }

  void advance() {
    int64_t least = INT64_MAX;
    int here = 0;
    for (const Client& c : clients)
      if (c.rank >= 0 && !c.gone && !c.left) least = std::min(least, c.generation), ++here;
    if (here < config.size || least <= generation) return;
    generation = least;
    failure.reset();
    for (Client& c : clients) {
      c.waits = false, c.moved_s = now_s();
      c.out += StoreFrame(StoreVerb::go).number(generation).bytes();
    }
  }

  // Who has come to a later generation waits for all, in vain if one of them has ended.
  void judge_reconfigured() {
    int64_t coming = generation;
    const Client* ended = nullptr;
    for (const Client& c : clients)
      if (c.rank >= 0 && (c.gone || c.left))
        ended = &c;
      else if (c.rank >= 0)
        coming = std::max(coming, c.generation);
    if (!ended || coming == generation || (failure && failure->generation == coming)) return;
    failure = {coming, -1, ErrorKind::peer, fmt::format("rank {} has ended", ended->rank)};
    for (Client& c : clients)
      if (c.rank >= 0 && !c.gone && c.generation == coming) tell(c);
  }

  void judge() {
    judge_reconfigured();
    const double now = now_s();
    int here = 0, known = 0;
    bool all_wait = true;
    double latest_s = moved_s;
    std::string waits;
    for (Client& c : clients) {
      if (c.rank < 0) {  // a stranger that says nothing
        if (now - c.heard_s > config.silence_s) c.gone = true;
        continue;
      }
      ++known;
      if (c.left) continue;
      latest_s = std::max(latest_s, c.moved_s);
      if (c.gone && c.gone_s >= 0 && now - c.gone_s >= config.grace_s) {
        fail(c.rank, ErrorKind::peer,
             fmt::format(
                 "rank {} was lost: its process ended and told the others nothing; what it wrote last may say why",
                 c.rank));
        c.gone_s = -1;
      }
      if (c.gone) continue;
      if (now - c.heard_s > config.silence_s)
        fail(c.rank, ErrorKind::peer,
             fmt::format("rank {} was lost: no sign of life for {:g} s (--comm-timeout)", c.rank, config.silence_s));
      ++here;
      all_wait = all_wait && c.waits;
      waits += fmt::format("{}rank {} waits for {}", waits.empty() ? "" : "; ", c.rank, c.awaits);
    }
    if (here > 0 && known >= config.size && all_wait && now - latest_s > config.silence_s)
      fail(-1, ErrorKind::peer,
           fmt::format("nothing has moved for {:g} s (--comm-timeout): {}", config.silence_s, waits));
  }
};

StoreServer::StoreServer(const HostPort& at, StoreConfig config, int more_ports) : state_(std::make_unique<State>()) {
  State& s = *state_;
  s.config = std::move(config);
  for (int port = at.port; !s.listener.open(); ++port) {
    if (port > at.port + more_ports)
      throw Error(ErrorKind::usage, "store: port {} of {} is taken{}; set MASTER_PORT to another one", at.port,
                  at.host.empty() ? "this machine" : at.host,
                  more_ports > 0 ? fmt::format(", and so are the {} after it", more_ports) : "");
    bool taken = false;
    s.listener = listen_at({at.host, port}, 1024, &taken);
  }
  s.wake = Descriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  s.thread = std::jthread([&s] { s.run(); });
}

StoreServer::~StoreServer() {
  {
    const std::scoped_lock lock(state_->mutex);
    state_->stopping = true;
  }
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t ignored = ::write(state_->wake.get(), &one, sizeof one);
}

HostPort StoreServer::address() const { return own_address(state_->listener); }

void StoreServer::fail(int rank, const std::string& reason) {
  {
    const std::scoped_lock lock(state_->mutex);
    state_->fail(rank, ErrorKind::peer, reason);
  }
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t ignored = ::write(state_->wake.get(), &one, sizeof one);
}

std::optional<WorldFailure> StoreServer::failure() const {
  const std::scoped_lock lock(state_->mutex);
  return state_->failure;
}

void StoreServer::await_all(double seconds) const {
  const auto have_come = [&] {
    const std::scoped_lock lock(state_->mutex);
    return std::ssize(state_->came) >= state_->config.size;
  };
  for (const double end = now_s() + seconds; !have_come() && now_s() < end;)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

}  // namespace tern
