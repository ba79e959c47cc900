#include "comm/process_world.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "base/crc32c.h"
#include "base/error.h"
#include "comm/link.h"
#include "comm/self_messages.h"
#include "comm/store_impl.h"

namespace tern {
namespace {

/// What the higher of two ranks says first on a new connection.
struct LinkHello {
  uint32_t magic = 0x484e5254;  // "TRNH"
  uint32_t token = 0;           // CRC-32C of the run's
  int32_t rank = 0;
  uint32_t generation = 0;
};
static_assert(sizeof(LinkHello) == 16);

class ProcessTransport final : public Transport {
 public:
  ProcessTransport(std::shared_ptr<StoreClient> store, const StoreRank& me)
      : store_(std::move(store)), me_(me), links_(static_cast<size_t>(me.size)), counted_(links_.size()) {
    const std::string host = store_->own_host();
    listener_ = listen_at({is_loopback(host) ? host : "", 0}, me.size);
    connect_all(0);
  }
  ~ProcessTransport() override { cancel(); }
  int rank() const override { return me_.rank; }
  int size() const override { return me_.size; }

  void send(int to, uint64_t tag, std::span<const std::byte> bytes) override {
    if (store_->failure()) store_->throw_failure(fmt::format("was at {} to rank {}", describe_tag(tag), to));
    if (to == me_.rank) return to_self_.send(tag, bytes);
    of(to).post(tag, bytes);
    of(to).send_some();
  }

  void recv(int from, uint64_t tag, std::span<std::byte> bytes) override { recv_any({&from, 1}, tag, bytes); }

  int recv_any(std::span<const int> from, uint64_t tag, std::span<std::byte> bytes) override {
    const auto awaits = [&] { return describe_awaited(from, tag); };
    auto first = from.end();
    const auto any = [&] {
      return (first = std::ranges::find_if(from, [&](int f) { return arrived(f); })) != from.end();
    };
    wait_until(any, from, awaits);
    const int who = *first;
    if (who == me_.rank) {
      to_self_.receive(tag, bytes);
      return who;
    }
    Link& link = of(who);
    require_whole(who);
    check_expected(me_.rank, who, link.header().tag, link.header().length, tag, bytes.size());
    const auto all_here = [&] {
      const size_t before = link.received();
      const bool all = link.read_payload(bytes, ledger_kept_);
      if (all || link.received() > before) store_->progress();
      return all;
    };
    wait_until(all_here, {&who, 1}, awaits);
    require_whole(who);
    return who;
  }

  bool poll(int from) override {
    if (store_->failure()) store_->throw_failure(fmt::format("looked for messages of rank {}", from));
    return arrived(from);
  }

  void flush() override {
    std::vector<int> all;
    for (int to = 0; to < me_.size; ++to) all.push_back(to);
    flush_to(all);
  }

  void flush_to(std::span<const int> peers) override {
    const auto unsent = [this] {
      std::string text;
      for (int to = 0; to < me_.size; ++to)
        if (to != me_.rank && !of(to).all_sent())
          text +=
              fmt::format("{}rank {} to take {}", text.empty() ? "" : ", ", to, describe_tag(of(to).next_tag_out()));
      return text.empty() ? "itself to receive what it sent" : text;
    };
    const auto all_sent = [this, peers] {
      return to_self_.empty() &&
             std::ranges::all_of(peers, [&](int to) { return to == me_.rank || of(to).all_sent(); });
    };
    wait_until(all_sent, {}, unsent);
  }

  void cancel() noexcept override {
    to_self_.clear();
    for (Link& link : links_) link.cancel();
  }

  void abort(const std::string& reason) noexcept override { store_->abort(reason); }

  void reconfigure(int64_t generation) override {
    TERN_CHECK(generation > generation_, "reconfigure: generation {} after {}", generation, generation_);
    cancel();
    for (int peer = 0; peer < me_.size; ++peer) {
      counted_[static_cast<size_t>(peer)] = bytes(peer);
      of(peer) = {};
    }
    store_->reconfigure(generation);
    connect_all(generation);
  }

  void keep_ledger(bool keep) override { ledger_kept_ = keep; }

  LinkBytes bytes(int peer) const override {
    LinkBytes sum = counted_[static_cast<size_t>(peer)];
    return sum += links_[static_cast<size_t>(peer)].bytes();
  }

 private:
  bool arrived(int from) { return from == me_.rank ? !to_self_.empty() : of(from).read_header(); }
  Link& of(int peer) { return links_[static_cast<size_t>(peer)]; }

  // A message that is not what was sent is of no use, and neither is what follows it.
  void require_whole(int from) {
    if (of(from).corruption().empty()) return;
    give_up(fmt::format("rank {}, from rank {}: {}", me_.rank, from, of(from).corruption()));
  }

  [[noreturn]] void give_up(const std::string& reason) {
    store_->abort(reason);
    throw Error(ErrorKind::peer, "{}", reason);
  }

  // Returns when `there` holds. What was posted goes out meanwhile; `from`: whose messages are awaited.
  void wait_until(const std::function<bool()>& there, std::span<const int> from,
                  const std::function<std::string()>& awaits) {
    if (there()) return;
    store_->waits(awaits());
    try {
      do { wait_once(there, from, awaits); } while (!there());
    } catch (...) {
      store_->goes_on();
      cancel();
      throw;
    }
    store_->goes_on();
  }

  void wait_once(const std::function<bool()>& there, std::span<const int> from,
                 const std::function<std::string()>& awaits) {
    if (store_->failure()) store_->throw_failure("waited for " + awaits());
    polled_.assign(1, {store_->failure_descriptor(), POLLIN, 0});
    const auto poll_link = [&](int peer, short events) {
      if (of(peer).closed()) lost(peer, awaits());
      polled_.push_back({of(peer).descriptor(), events, 0});
    };
    for (const int f : from)
      if (f != me_.rank) poll_link(f, POLLIN);
    for (int to = 0; to < me_.size; ++to) {
      if (to == me_.rank || of(to).all_sent()) continue;
      if (of(to).send_some()) store_->progress();
      if (!of(to).all_sent()) poll_link(to, POLLOUT);
    }
    if (from.empty() && there()) return;  // a flush, and what it waits for went out just now
    ::poll(polled_.data(), polled_.size(), -1);
    for (int to = 0; to < me_.size; ++to)
      if (to != me_.rank && !of(to).all_sent() && of(to).send_some()) store_->progress();
  }

  // The other end has closed. Whoever knows why has told the store, or will in a moment.
  [[noreturn]] void lost(int peer, const std::string& awaited) {
    if (store_->failed_within(kToldWithin)) store_->throw_failure("waited for " + awaited);
    give_up(fmt::format("rank {0}: the connection to rank {1} was closed; rank {0} waited for {2}", me_.rank, peer,
                        awaited));
  }
  static constexpr double kToldWithin = 2;

  // The higher rank connects to the lower one.
  void connect_all(int64_t generation) {
    generation_ = generation;
    const auto key = [&](int r) { return fmt::format("links/{}/{}", generation, r); };
    store_->set(key(me_.rank), text_of({store_->own_host(), own_address(listener_).port}));
    for (int lower = 0; lower < me_.rank; ++lower) {
      const HostPort at = parse_host_port(store_->get(key(lower), fmt::format("rank {} to come", lower)));
      std::string why;
      Descriptor d = connect_once(at, me_.silence_s, &why);
      LinkHello hello{.token = crc32c(me_.token), .rank = me_.rank, .generation = static_cast<uint32_t>(generation)};
      if (!d.open() || ::send(d.get(), &hello, sizeof hello, MSG_NOSIGNAL) != sizeof hello) {
        // It may have ended, of a failure that the store tells in a moment.
        if (store_->failed_within(kToldWithin)) store_->throw_failure(fmt::format("it connected to rank {}", lower));
        give_up(fmt::format("rank {}: cannot connect to rank {} at {}: {}; does a firewall stand between them?",
                            me_.rank, lower, text_of(at), why));
      }
      of(lower) = Link(std::move(d), hello.generation);
    }
    int missing = me_.size - 1 - me_.rank;
    std::vector<Descriptor> strangers;
    const auto awaits = [this] {
      std::string text;
      for (int r = me_.rank + 1; r < me_.size; ++r)
        if (of(r).descriptor() < 0) text += fmt::format("{}rank {}", text.empty() ? "" : ", ", r);
      return text + " to connect";
    };
    store_->waits(awaits());
    const double begin_s = now_s();
    while (missing > 0) {
      if (me_.tell_wait && now_s() > begin_s + kQuietWait_s) tell_wait(awaits());
      if (now_s() > begin_s + me_.silence_s)
        give_up(fmt::format("rank {}: waited {:g} s (--comm-timeout) for {}", me_.rank, me_.silence_s, awaits()));
      if (store_->failure()) {
        store_->goes_on();
        store_->throw_failure("waited for " + awaits());
      }
      polled_.assign({{store_->failure_descriptor(), POLLIN, 0}, {listener_.get(), POLLIN, 0}});
      for (const Descriptor& d : strangers) polled_.push_back({d.get(), POLLIN, 0});
      ::poll(polled_.data(), polled_.size(), 100);
      std::erase_if(strangers, [&](Descriptor& d) { return greet(d, missing); });
      for (Descriptor d = accept_at(listener_); d.open(); d = accept_at(listener_)) strangers.push_back(std::move(d));
    }
    store_->goes_on();
  }

  void tell_wait(const std::string& what) {
    std::exchange(me_.tell_wait,
                  {})(fmt::format("rank {} waits at {} for {}", me_.rank, text_of(store_->address()), what));
  }

  // Whether the connection has said who it is, and is a link now or nobody's.
  bool greet(Descriptor& d, int& missing) {
    LinkHello hello{.magic = 0};
    const ssize_t count = ::recv(d.get(), &hello, sizeof hello, MSG_DONTWAIT | MSG_PEEK);
    if (count < 0 || (count > 0 && static_cast<size_t>(count) < sizeof hello)) return false;
    const bool ours = count == sizeof hello && hello.magic == LinkHello{}.magic && hello.token == crc32c(me_.token) &&
                      hello.generation == static_cast<uint32_t>(generation_) && hello.rank > me_.rank &&
                      hello.rank < me_.size && of(hello.rank).descriptor() < 0;
    if (!ours) return true;
    [[maybe_unused]] const ssize_t taken = ::recv(d.get(), &hello, sizeof hello, 0);
    of(hello.rank) = Link(std::move(d), hello.generation);
    --missing;
    return true;
  }

  std::shared_ptr<StoreClient> store_;
  StoreRank me_;
  Descriptor listener_;
  int64_t generation_ = 0;
  bool ledger_kept_ = false;
  std::vector<Link> links_;
  std::vector<LinkBytes> counted_;  // of earlier generations
  SelfMessages to_self_{me_.rank};
  std::vector<pollfd> polled_;
};

}  // namespace

std::unique_ptr<Transport> make_process_transport(std::shared_ptr<StoreClient> store, const StoreRank& me) {
  return std::make_unique<ProcessTransport>(std::move(store), me);
}

}  // namespace tern
