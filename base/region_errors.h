#pragma once
// An exception that leaves an OpenMP parallel region ends the process. RegionErrors keeps the first exception of a team, and
// the thread that started the region rethrows it.

#include <atomic>
#include <exception>

namespace tern {

class RegionErrors {
 public:
  /// Called by a thread of the team: runs `run()`, and keeps the exception that it throws, if no thread threw one before.
  template <class Run>
  void guard(const Run& run) noexcept {
    try {
      run();
    } catch (...) {
      if (!any_.exchange(true)) first_ = std::current_exception();
    }
  }
  /// Whether a thread has thrown so far. If so, the others may skip the rest of their work.
  bool any() const { return any_.load(std::memory_order_relaxed); }
  /// To be called after the region: rethrows the exception that guard kept, if there is one.
  void rethrow() const {
    if (any_) std::rethrow_exception(first_);
  }

 private:
  std::atomic<bool> any_ = false;
  std::exception_ptr first_;  // written by the thread that set any_, read after the region
};

}  // namespace tern
