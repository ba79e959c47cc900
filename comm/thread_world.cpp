#include "comm/thread_world.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "base/error.h"
#include "comm/self_messages.h"

namespace tern {
namespace {

struct Message {
  uint64_t tag;
  std::span<const std::byte> bytes;
};

enum class Phase : uint8_t { waits_for_turn, runs, blocked, ended };

struct RankState {
  Phase phase = Phase::waits_for_turn;
  std::function<bool()> ready;  // of a blocked one
  std::function<std::string()> awaits;
  std::condition_variable wake;
  int64_t generation = 0;
  int posted = 0, being_read = 0;  // messages of this rank: in a queue; taken from it and not yet copied
};

}  // namespace

struct ThreadWorld::State {
  const int ranks;
  const ThreadWorldOptions options;
  mutable std::mutex mutex{};
  std::vector<RankState> rank;
  std::vector<std::deque<Message>> queue;  // [from · ranks + to]
  std::vector<LinkBytes> bytes;            // [rank · ranks + peer]
  int holder = 0;                          // of the baton
  int64_t failed_at = -1;                  // the generation of the first failure
  int failed_rank = -1;
  std::string reason{};

  State(int n, ThreadWorldOptions o)
      : ranks(n), options(o), rank(static_cast<size_t>(n)), queue(square(n)), bytes(square(n)) {}
  static size_t square(int n) { return static_cast<size_t>(n) * static_cast<size_t>(n); }
  size_t at(int a, int b) const { return static_cast<size_t>(a) * static_cast<size_t>(ranks) + static_cast<size_t>(b); }
  RankState& of(int r) { return rank[static_cast<size_t>(r)]; }

  // A rank that has come to reconfigure is in a later generation and does not see it.
  bool failed(int r) { return failed_at >= of(r).generation; }
  void fail(int who, std::string why) {
    if (failed(who)) return;
    failed_at = of(who).generation, failed_rank = who, reason = std::move(why);
    for (RankState& r : rank) r.wake.notify_all();
  }

  bool can_go_on(int r) {
    const RankState& s = of(r);
    return s.phase == Phase::waits_for_turn || s.phase == Phase::runs ||
           (s.phase == Phase::blocked && (failed(r) || s.ready()));
  }

  std::string who_waits() {
    std::string text;
    for (int r = 0; r < ranks; ++r)
      text += fmt::format("{}rank {} {}", r == 0 ? "" : "; ", r,
                          of(r).phase == Phase::ended ? "has ended" : "waits for " + of(r).awaits());
    return text;
  }

  // After `r` has stopped running: under a baton the next one gets it; if nobody can go on, nobody ever will.
  void hand_on(int r) {
    int left = -1;  // one that waits for ever; a failure of `r` itself would be of its generation alone
    for (int step = 1; step <= ranks; ++step) {
      const int next = (r + step) % ranks;
      if (of(next).phase != Phase::ended) left = next;
      if (!can_go_on(next)) continue;
      if (options.baton) holder = next, of(next).wake.notify_all();
      return;
    }
    if (left >= 0) fail(left, fmt::format("deadlock: {}", who_waits()));
  }

  void throw_failure(int r) {
    take_back(r);
    throw Error(ErrorKind::peer, "rank {}: {}", r, reason);
  }

  // Messages that nobody has taken are withdrawn; those being copied are waited for, which takes as long as a copy.
  void take_back(int r) {
    for (int to = 0; to < ranks; ++to) {
      of(r).posted -= static_cast<int>(queue[at(r, to)].size());
      queue[at(r, to)].clear();
    }
  }
  void await_readers(std::unique_lock<std::mutex>& lock, int r) {
    of(r).wake.wait(lock, [&] { return of(r).being_read == 0; });
  }

  // Returns when ready() holds, and under a baton when it is this rank's turn.
  void wait(std::unique_lock<std::mutex>& lock, int r, std::function<bool()> ready,
            std::function<std::string()> awaits) {
    RankState& s = of(r);
    const auto over = [&] { return failed(r); };
    if (!over() && ready()) return;
    if (!over()) {
      s.ready = std::move(ready), s.awaits = std::move(awaits), s.phase = Phase::blocked;
      hand_on(r);
      const auto wakes = [&] { return over() || (s.ready() && (!options.baton || holder == r)); };
      if (options.deadline_s > 0 && !options.baton) {
        const auto limit = std::chrono::duration<double>(options.deadline_s);
        if (!s.wake.wait_for(lock, limit, wakes))
          fail(r, fmt::format("waited for {} longer than the {:g} s of the deadline", s.awaits(), options.deadline_s));
      } else {
        s.wake.wait(lock, wakes);
      }
      s.phase = Phase::runs;
    }
    if (!over()) return;
    await_readers(lock, r);
    throw_failure(r);
  }
};

class ThreadWorld::Rank final : public Transport {
 public:
  Rank(State& state, int rank) : s_(state), rank_(rank) {}
  ~Rank() override { cancel(); }
  int rank() const override { return rank_; }
  int size() const override { return s_.ranks; }

  void send(int to, uint64_t tag, std::span<const std::byte> bytes) override {
    std::unique_lock lock(s_.mutex);
    if (s_.failed(rank_)) {
      s_.await_readers(lock, rank_);
      s_.throw_failure(rank_);
    }
    s_.queue[s_.at(rank_, to)].push_back({tag, bytes});
    ++s_.of(rank_).posted;
    s_.of(to).wake.notify_all();
  }

  void recv(int from, uint64_t tag, std::span<std::byte> bytes) override {
    std::unique_lock lock(s_.mutex);
    s_.wait(
        lock, rank_, [this, from] { return waits(from); },
        [from, tag] { return fmt::format("{} of rank {}", describe_tag(tag), from); });
    take(lock, from, tag, bytes);
  }

  int recv_any(std::span<const int> from, uint64_t tag, std::span<std::byte> bytes) override {
    std::unique_lock lock(s_.mutex);
    const auto first = [this, from] { return std::ranges::find_if(from, [this](int f) { return waits(f); }); };
    s_.wait(
        lock, rank_, [&] { return first() != from.end(); },
        [from, tag] { return fmt::format("{} of any of {} ranks", describe_tag(tag), from.size()); });
    const int who = *first();
    take(lock, who, tag, bytes);
    return who;
  }

  // Under a baton the others get a turn, or it would never come true.
  bool poll(int from) override {
    std::unique_lock lock(s_.mutex);
    if (waits(from) || !s_.options.baton) return waits(from);
    RankState& me = s_.of(rank_);
    me.phase = Phase::waits_for_turn;
    s_.hand_on(rank_);
    me.wake.wait(lock, [&] { return s_.failed(rank_) || s_.holder == rank_; });
    me.phase = Phase::runs;
    return waits(from);
  }

  void flush() override {
    std::unique_lock lock(s_.mutex);
    const RankState& me = s_.of(rank_);
    s_.wait(
        lock, rank_, [&] { return me.posted == 0 && me.being_read == 0; }, [this] { return unread(); });
  }

  void flush_to(std::span<const int> peers) override {
    std::unique_lock lock(s_.mutex);
    const RankState& me = s_.of(rank_);
    const auto taken = [&] {
      return me.being_read == 0 &&
             std::ranges::all_of(peers, [&](int to) { return s_.queue[s_.at(rank_, to)].empty(); });
    };
    s_.wait(lock, rank_, taken, [this] { return unread(); });
  }

  void cancel() noexcept override {
    std::unique_lock lock(s_.mutex);
    s_.take_back(rank_);
    s_.await_readers(lock, rank_);
  }

  void abort(const std::string& reason) noexcept override {
    const std::unique_lock lock(s_.mutex);
    s_.fail(rank_, reason);
  }

  void reconfigure(int64_t generation) override {
    std::unique_lock lock(s_.mutex);
    RankState& me = s_.of(rank_);
    TERN_CHECK(generation > me.generation, "reconfigure: generation {} after {}", generation, me.generation);
    s_.take_back(rank_);
    s_.await_readers(lock, rank_);
    me.generation = generation;
    const auto all_here = [this, generation] {
      return std::ranges::all_of(s_.rank, [&](const RankState& r) { return r.generation >= generation; });
    };
    if (all_here()) {
      s_.failed_rank = -1;
      for (RankState& r : s_.rank) r.wake.notify_all();
    }
    s_.wait(lock, rank_, all_here, [generation] { return fmt::format("all ranks in generation {}", generation); });
  }

  LinkBytes bytes(int peer) const override {
    const std::unique_lock lock(s_.mutex);
    return s_.bytes[s_.at(rank_, peer)];
  }

 private:
  bool waits(int from) const { return !s_.queue[s_.at(from, rank_)].empty(); }

  std::string unread() const {
    std::string text;
    for (int to = 0; to < s_.ranks; ++to)
      if (const auto& queue = s_.queue[s_.at(rank_, to)]; !queue.empty())
        text += fmt::format("{}rank {} to receive {}", text.empty() ? "" : ", ", to, describe_tag(queue.front().tag));
    return text;
  }

  void take(std::unique_lock<std::mutex>& lock, int from, uint64_t tag, std::span<std::byte> bytes) {
    std::deque<Message>& queue = s_.queue[s_.at(from, rank_)];
    const Message message = queue.front();
    check_expected(rank_, from, message.tag, message.bytes.size(), tag, bytes.size());
    queue.pop_front();
    RankState& sender = s_.of(from);
    --sender.posted, ++sender.being_read;
    lock.unlock();
    if (!bytes.empty()) std::memcpy(bytes.data(), message.bytes.data(), bytes.size());
    lock.lock();
    --sender.being_read;
    const auto count = static_cast<int64_t>(bytes.size());
    if (from != rank_) {
      s_.bytes[s_.at(rank_, from)].received += count;
      s_.bytes[s_.at(from, rank_)].sent += count;
    }
    sender.wake.notify_all();
  }

  State& s_;
  int rank_;
};

ThreadWorld::ThreadWorld(int ranks, ThreadWorldOptions options) : state_(std::make_unique<State>(ranks, options)) {
  TERN_CHECK(ranks >= 1, "ThreadWorld: {} ranks", ranks);
}
ThreadWorld::~ThreadWorld() = default;
int ThreadWorld::size() const { return state_->ranks; }
std::unique_ptr<Transport> ThreadWorld::transport(int rank) { return std::make_unique<Rank>(*state_, rank); }

void ThreadWorld::begin(int rank) {
  std::unique_lock lock(state_->mutex);
  RankState& me = state_->of(rank);
  if (state_->options.baton) me.wake.wait(lock, [&] { return state_->failed(rank) || state_->holder == rank; });
  me.phase = Phase::runs;
}

void ThreadWorld::end(int rank) {
  const std::unique_lock lock(state_->mutex);
  state_->of(rank).phase = Phase::ended;
  state_->hand_on(rank);
}

int ThreadWorld::failed_rank() const {
  const std::unique_lock lock(state_->mutex);
  return state_->failed_rank;
}

void run_ranks(int ranks, const ThreadWorldOptions& options,
               const std::function<void(std::unique_ptr<Transport>)>& work) {
  ThreadWorld world(ranks, options);
  std::vector<std::exception_ptr> errors(static_cast<size_t>(ranks));
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < ranks; ++rank)
      threads.emplace_back([&, rank] {
        world.begin(rank);
        try {
          work(world.transport(rank));
        } catch (const std::exception& e) {
          errors[static_cast<size_t>(rank)] = std::current_exception();
          world.transport(rank)->abort(fmt::format("rank {} failed: {}", rank, e.what()));
        } catch (...) {
          errors[static_cast<size_t>(rank)] = std::current_exception();
          world.transport(rank)->abort(fmt::format("rank {} failed", rank));
        }
        world.end(rank);
      });
  }
  const int first = world.failed_rank();
  if (first >= 0 && errors[static_cast<size_t>(first)]) std::rethrow_exception(errors[static_cast<size_t>(first)]);
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
}

}  // namespace tern
