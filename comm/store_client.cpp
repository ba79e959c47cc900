#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "comm/store.h"
#include "comm/store_impl.h"

namespace tern {
namespace {

void set_readable(const Descriptor& event) {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t ignored = ::write(event.get(), &one, sizeof one);
}
void set_unreadable(const Descriptor& event) {
  uint64_t count;
  [[maybe_unused]] const ssize_t ignored = ::read(event.get(), &count, sizeof count);
}

// What a server answers to a rank that joins.
enum class Welcome : uint8_t { yes, no, nobody };  // nobody: no store of this run is there

Welcome try_join(const Descriptor& d, StoreRank& me, StoreInput& in, double seconds, std::string& why) {
  std::string hello =
      StoreFrame(StoreVerb::join).text(me.token).number(me.rank).number(me.size).text(TERN_VERSION).bytes();
  if (!send_some(d, hello) || !hello.empty()) return Welcome::nobody;
  const double end_s = now_s() + seconds;
  try {
    for (bool open = true;;) {  // a last word may come together with the end
      if (std::optional<StoreMessage> m = in.next()) {
        if (m->verb() == StoreVerb::welcome) {
          me.silence_s = 1e-3 * static_cast<double>(m->number());
          return Welcome::yes;
        }
        why = m->verb() == StoreVerb::refused ? m->text() : "";
        return why.empty() ? Welcome::nobody : Welcome::no;
      }
      if (!open || !wait_readable(d.get(), std::max(0.0, end_s - now_s()))) return Welcome::nobody;
      open = in.fill(d);
    }
  } catch (const Error&) { return Welcome::nobody; }  // another program listens there
}

}  // namespace

struct StoreClient::State {
  StoreRank me;
  HostPort store{};
  Descriptor connection{}, wake{}, failed{};
  mutable std::mutex mutex{};
  mutable std::condition_variable changed{};
  StoreInput in{};
  std::string out{};
  std::map<std::string, std::string> values{};
  std::optional<WorldFailure> failure{};
  int64_t generation = 0, all_in = 0;  // the rank's; that all ranks have come to
  std::optional<std::string> awaits{};
  bool stopping = false, open = true;  // not open: there is a failure
  double heard_s = now_s();            // from the store
  std::jthread thread{};

  void join(int more_ports) {
    const double begin_s = now_s(), end_s = begin_s + me.silence_s;
    const std::string where =
        text_of(store) + (more_ports > 0 ? fmt::format(" or the {} ports after it", more_ports) : "");
    std::string why = "nobody answered";
    for (int i = 0;; i = (i + 1) % (more_ports + 1)) {
      if (me.tell_wait && now_s() > begin_s + kQuietWait_s)
        std::exchange(me.tell_wait, {})(
            fmt::format("rank {} looks for the store, which rank 0 has, at {} ({})", me.rank, where, why));
      const HostPort at{store.host, store.port + i};
      in = {};
      connection = connect_once(at, std::max(0.01, end_s - now_s()), &why);
      if (connection.open()) switch (try_join(connection, me, in, std::min(2.0, me.silence_s), why)) {
          case Welcome::yes:
            store = at;
            return;
          case Welcome::no:
            throw Error(ErrorKind::usage, "rank {}: refused by the store at {}: {}", me.rank, text_of(at), why);
          case Welcome::nobody:
            why = "another program, or another run, answers there";
        }
      if (now_s() > end_s && !is_known(store))
        throw Error(ErrorKind::usage, "rank {}: '{}' is no name that this machine knows ({}); is MASTER_ADDR right?",
                    me.rank, store.host, why);
      if (now_s() > end_s)
        throw Error(ErrorKind::peer,
                    "rank {}: no store of this run at {} within {:g} s ({}); is rank 0, or the launcher, running?",
                    me.rank, where, me.silence_s, why);
      if (i == more_ports) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }

  // The thread beside sends what is left. A lost connection is for it to find: it reads what had arrived before it says so.
  void send(StoreFrame frame) {
    const std::scoped_lock lock(mutex);
    if (!open) return;
    out += frame.bytes();
    send_some(connection, out);
    if (!out.empty()) set_readable(wake);
  }

  // The thread beside the rank's.
  void watch(const std::atomic<int64_t>& progress) {
    const double period_s = std::clamp(me.silence_s / 8, 0.01, 2.0);
    double next_s = 0;
    for (;;) {
      if (now_s() >= next_s) beat(progress), next_s = now_s() + period_s;
      pollfd polled[] = {{connection.get(), POLLIN, 0}, {wake.get(), POLLIN, 0}};
      {
        const std::scoped_lock lock(mutex);
        if (stopping) return;
        if (!open) polled[0].fd = -1;
        if (!out.empty()) polled[0].events |= POLLOUT;
      }
      ::poll(polled, 2, static_cast<int>(1e3 * std::max(0.0, next_s - now_s())) + 1);
      const std::scoped_lock lock(mutex);
      set_unreadable(wake);
      if (!open) continue;
      if (polled[0].revents & POLLIN) heard_s = now_s();
      bool there = in.fill(connection);
      if (there && !send_some(connection, out))
        there = false, in.fill(connection);  // a last word may have come meanwhile
      try {
        while (std::optional<StoreMessage> m = in.next()) obey(*m);
      } catch (const Error& e) { fail({generation, -1, ErrorKind::peer, e.what()}); }
      if (now_s() - heard_s > me.silence_s)
        fail({generation, -1, ErrorKind::peer,
              fmt::format(
                  "no sign of life from the store at {} for {:g} s (--comm-timeout): rank 0, the launcher or the "
                  "network between is gone",
                  text_of(store), me.silence_s)});
      if (!there)
        open = false,
        fail({generation, -1, ErrorKind::peer,
              fmt::format("the store at {} was lost: rank 0, or the launcher, has ended", text_of(store))});
      changed.notify_all();
    }
  }

  void beat(const std::atomic<int64_t>& progress) {
    std::optional<std::string> waiting;
    {
      const std::scoped_lock lock(mutex);
      waiting = awaits;
    }
    StoreFrame frame(StoreVerb::beat);
    send(frame.number(progress.load()).number(waiting.has_value()).text(waiting.value_or("")));
  }

  void obey(StoreMessage& m) {
    switch (m.verb()) {
      case StoreVerb::value: {
        const std::string key = m.text();
        values[key] = m.text();
        return;
      }
      case StoreVerb::failed: {
        WorldFailure f{.generation = m.number(), .rank = static_cast<int>(m.number())};
        f.kind = m.number() != 0 ? ErrorKind::usage : ErrorKind::peer;
        f.reason = m.text();
        if (f.generation >= generation) fail(std::move(f));
        return;
      }
      case StoreVerb::go:
        all_in = m.number();
        return;
      default:
        return;
    }
  }

  void fail(WorldFailure f) {
    if (failure) return;
    failure = std::move(f);
    set_readable(failed);
  }

  void wait_until(const std::function<bool()>& there, const std::string& what) {
    std::unique_lock lock(mutex);
    awaits = what;
    const auto ends = [&] { return there() || failure; };
    const double quiet_s = std::min(kQuietWait_s, me.silence_s);
    bool came = changed.wait_for(lock, Seconds(quiet_s), ends);
    if (!came && me.tell_wait)
      std::exchange(me.tell_wait, {})(fmt::format("rank {} waits at {} for {}", me.rank, text_of(store), what));
    if (!came) came = changed.wait_for(lock, Seconds(me.silence_s - quiet_s), ends);
    awaits.reset();
    if (came && there()) return;
    if (!came)
      throw Error(ErrorKind::peer, "rank {}: waited {:g} s (--comm-timeout) for {}", me.rank, me.silence_s, what);
    throw Error(failure->kind, "rank {0}: {1}; rank {0} waited for {2}", me.rank, failure->reason, what);
  }
};

StoreClient::StoreClient(const HostPort& at, const StoreRank& me, int more_ports)
    : state_(std::make_unique<State>(me)) {
  State& s = *state_;
  s.store = at;
  s.wake = Descriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  s.failed = Descriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  s.join(more_ports);
  s.heard_s = now_s();
  s.thread = std::jthread([&s, this] { s.watch(progress_); });
}

StoreClient::~StoreClient() {
  state_->send(StoreFrame(StoreVerb::leave));
  const std::scoped_lock lock(state_->mutex);
  state_->stopping = true;
  set_readable(state_->wake);
}

void StoreClient::set(const std::string& key, const std::string& value) {
  StoreFrame frame(StoreVerb::set);
  state_->send(frame.text(key).text(value));
}

std::string StoreClient::get(const std::string& key, const std::string& wanted_for) {
  StoreFrame frame(StoreVerb::get);
  state_->send(frame.text(key));
  state_->wait_until([&] { return state_->values.contains(key); }, wanted_for);
  const std::scoped_lock lock(state_->mutex);
  return state_->values[key];
}

void StoreClient::abort(const std::string& reason, ErrorKind kind) noexcept {
  try {
    StoreFrame frame(StoreVerb::abort);
    state_->send(frame.text(reason).number(kind == ErrorKind::usage));
    const std::scoped_lock lock(state_->mutex);
    state_->fail({state_->generation, state_->me.rank, kind, reason});
  } catch (const std::exception&) {}  // no memory: the closed connection tells the rest
}

void StoreClient::reconfigure(int64_t generation) {
  {
    const std::scoped_lock lock(state_->mutex);
    state_->generation = generation;
    if (state_->open) state_->failure.reset(), set_unreadable(state_->failed);
  }
  StoreFrame frame(StoreVerb::reconfigure);
  state_->send(frame.number(generation));
  state_->wait_until([&] { return state_->all_in >= generation; },
                     fmt::format("all ranks in generation {}", generation));
}

void StoreClient::waits(std::string what) {
  const std::scoped_lock lock(state_->mutex);
  state_->awaits = std::move(what);
}
void StoreClient::goes_on() {
  const std::scoped_lock lock(state_->mutex);
  state_->awaits.reset();
}

std::optional<WorldFailure> StoreClient::failure() const {
  const std::scoped_lock lock(state_->mutex);
  return state_->failure;
}
int StoreClient::failure_descriptor() const { return state_->failed.get(); }
bool StoreClient::failed_within(double seconds) const { return wait_readable(state_->failed.get(), seconds); }

void StoreClient::throw_failure(const std::string& doing) const {
  const WorldFailure f = failure().value();
  throw Error(f.kind, "rank {0}: {1}; rank {0} {2}", state_->me.rank, f.reason, doing);
}

std::string StoreClient::own_host() const {
  const HostPort own = own_address(state_->connection);
  // On the store's machine, and others know that by another name than its own loopback's.
  return is_loopback(own.host) ? state_->store.host : own.host;
}

HostPort StoreClient::address() const { return state_->store; }

}  // namespace tern
