#pragma once
// Sets how many threads OpenMP uses. No other file does.

#include <cstdint>

namespace tern {

/// Sets the number of threads of all teams that the calling thread starts from now on, and returns it. 0: as many as the CPUs that this process may use
/// (affinity, control group quota). Teams of other threads have numbers of their own.
int set_compute_threads(int requested);
/// While it lives, the calling thread's teams have the share of its threads that `tern train` gives each of so many ranks, if all are on
/// this machine and neither --threads nor --async is given.
class ShareOfThreads {
 public:
  explicit ShareOfThreads(int64_t ranks);
  ~ShareOfThreads();
  ShareOfThreads(const ShareOfThreads&) = delete;
  ShareOfThreads& operator=(const ShareOfThreads&) = delete;

 private:
  int all_;
};

}  // namespace tern
