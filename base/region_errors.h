#pragma once
// An exception that leaves a parallel region ends the process. This carries the first one of a team to the thread that
// started the region, which throws it on.

#include <atomic>
#include <exception>

namespace tern {

class RegionErrors {
 public:
  /// Runs `run()` on a thread of the team. Keeps what it throws, if it is the first that any thread threw.
  template <class Run>
  void guard(const Run& run) noexcept {
    try {
      run();
    } catch (...) {
      if (!any_.exchange(true)) first_ = std::current_exception();
    }
  }
  /// Whether a thread threw so far: the others may leave the rest of their work.
  bool any() const { return any_.load(std::memory_order_relaxed); }
  /// To be called after the region: throws what guard kept, if anything.
  void rethrow() const {
    if (any_) std::rethrow_exception(first_);
  }

 private:
  std::atomic<bool> any_ = false;
  std::exception_ptr first_;  // written by the thread that set any_, read after the region
};

}  // namespace tern
