#pragma once
// Sums over ranks that run beside the compute. A second thread runs the sums one after the other, in the order of the
// list. So every rank makes the same calls in the same order as without that thread, and gets the same bits.

#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "comm/comm.h"
#include "comm/second_thread.h"
#include "program/program.h"

namespace tern {

/// A sum that has ended.
struct SummedBeside {
  size_t place = 0;                  // of its instruction in Program::instructions
  int64_t begin_ns = 0, end_ns = 0;  // on the clock of SumsBeside
  LinkBytes links;                   // bytes sent and received meanwhile
};

/// The sums of one run of one Program. The computing thread makes all calls. While any() is true, only the second thread, which runs the
/// sums, may use the world's transport.
/// Threads   The first `post` starts the second thread, which has no team of threads. The computing thread destroys the posted functions.
/// Errors    If a sum throws, later sums do not run; the next `ended`, `wait` or `wait_for` throws the same error.
/// End       The destructor waits until the running sum ends, or fails because another rank failed; it drops later sums.
class SumsBeside {
 public:
  SumsBeside(const Clock& clock, const Comm* world) : clock_(clock), world_(world) {}
  SumsBeside(const SumsBeside&) = delete;

  /// Whether some posted sum has not yet been returned by `ended`, `wait` or `wait_for`.
  bool any() const { return posted_ > told_; }
  /// Puts a sum at the end of the queue and returns at once. `reads`: the buffers that the sum reads. Nobody else may
  /// touch what the sum reads or writes until `ended`, `wait` or `wait_for` has returned the sum.
  void post(size_t place, std::vector<Buffer> reads, std::function<void()> sum);
  /// Sums that have ended and were not returned before, in order. `ended` does not wait. `wait` waits for all sums.
  /// `wait_for` waits for the sums that read one of `buffers`.
  std::vector<SummedBeside> ended() { return take(0); }
  std::vector<SummedBeside> wait();
  std::vector<SummedBeside> wait_for(std::span<const Buffer> buffers);

 private:
  struct Posted {
    std::vector<Buffer> reads;
    std::function<void()> sum;
    SummedBeside told;
  };
  std::vector<SummedBeside> take(size_t least);

  const Clock& clock_;
  const Comm* world_;
  std::deque<Posted> sums_;       // not returned yet; each stays where it is while others come and go at the ends
  size_t posted_ = 0, told_ = 0;  // sums posted, and returned
  SecondThread thread_;           // the last member: it ends before the sums that it runs
};

}  // namespace tern
