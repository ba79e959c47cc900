#pragma once
// Sums over ranks that run beside the compute: a thread of their own runs them one after the other, in the order of the list. So
// every rank makes the same calls in the same order as without that thread, and has the same bits.

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "comm/comm.h"
#include "program/program.h"

namespace tern {

/// A sum that has ended.
struct SummedBeside {
  size_t place = 0;  // in the Program
  int64_t begin_ns = 0, end_ns = 0;
  LinkBytes links;  // sent and received meanwhile
};

/// Used by the thread that computes; each call but post may wait. While any() is true no other thread may use the world's transport.
/// Threads   one, from the first post on. It starts no team; what a sum owns is freed by the thread that computes.
/// Errors    what a sum throws is thrown by the next call but post; the sums behind it do not run.
/// End       waits for the sum at work, for which the other ranks come or whose wait their failure ends. Those behind it are dropped.
class SumsBeside {
 public:
  SumsBeside(const Clock& clock, const Comm* world) : clock_(clock), world_(world) {}
  ~SumsBeside();
  SumsBeside(const SumsBeside&) = delete;

  /// Whether any is posted whose end no call has told yet.
  bool any() const { return posted_ > told_; }
  /// `sum` reads and writes only what nobody else touches until its end is told. `reads`: buffers that it reads.
  void post(size_t place, std::vector<Buffer> reads, std::function<void()> sum);
  /// Those that have ended since the last call, in order: without waiting; when all have; when those have that read one of `buffers`.
  std::vector<SummedBeside> ended() { return take(0); }
  std::vector<SummedBeside> wait();
  std::vector<SummedBeside> wait_for(std::span<const Buffer> buffers);

 private:
  struct Posted {
    std::vector<Buffer> reads;
    std::function<void()> sum;
    SummedBeside told;
  };
  void run();
  std::vector<SummedBeside> take(size_t least);

  const Clock& clock_;
  const Comm* world_;
  size_t posted_ = 0, told_ = 0;  // of the thread that computes
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Posted> sums_;  // not told of yet; the first ended_ have ended
  size_t ended_ = 0;
  std::exception_ptr failure_;
  bool stops_ = false;
  std::jthread thread_;  // the last member: it ends before what it uses
};

}  // namespace tern
