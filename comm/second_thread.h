#pragma once
// A second thread of a rank, which does things beside the compute, one after the other.

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace tern {

/// Runs jobs in the order in which they are posted. One thread, the computing one, makes all calls.
/// Threads   The first `post` starts the second thread, which has no team of threads. It destroys a job before the job counts as ended.
/// Errors    If a job throws, later jobs do not begin until its failure is taken.
/// End       The destructor waits until the running job ends, and drops later ones.
class SecondThread {
 public:
  SecondThread() = default;
  ~SecondThread();
  SecondThread(const SecondThread&) = delete;

  /// Puts a job at the end of the queue and returns at once. Errors: std::system_error, if the system gives no thread; the job is not posted then.
  void post(std::function<void()> job);
  /// Waits until `least` of all posted jobs have ended, or one has thrown. `least`: at most as many as were posted; else it waits for ever. Returns how many have ended, the one that threw with them.
  size_t wait(size_t least);
  /// What the job threw that holds later ones up; nullptr: there is none.
  std::exception_ptr failure() const;
  /// The same, and lets later jobs begin.
  std::exception_ptr take_failure() noexcept;

 private:
  void run();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;  // that have not begun
  size_t ended_ = 0;
  std::exception_ptr failure_;
  bool stops_ = false;
  std::jthread thread_;  // the last member: the thread ends before the members that it uses
};

}  // namespace tern
