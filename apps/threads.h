#pragma once
// Sets how many threads OpenMP uses. No other file of the program does.

#include <cstdint>
#include <string>

namespace tern {

/// What to say if `ranks` ranks of `threads` threads each share `usable` CPUs and fewer threads would be faster; "": nothing.
std::string threads_that_take_turns(int64_t ranks, int64_t threads, int usable);

/// Sets the number of threads of all teams that the calling thread starts from now on, and returns it. 0: as many as the
/// CPUs that this process may use (affinity, control group quota). It does not change the teams of other threads.
int set_compute_threads(int requested);
/// While it lives, the calling thread's teams have 1/`ranks` of its threads (at least one), as `tern train` gives each of
/// its ranks if all are on this machine and neither --threads nor --async is given.
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
