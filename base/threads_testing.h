#pragma once
// For tests: runs code with OpenMP teams of another size. The program itself sets team sizes in apps/ only.

#include <omp.h>

namespace tern {

/// Calls `run` on this thread with teams of `threads` threads, then restores the team size.
template <class Run>
void with_threads(int threads, Run run) {
  const int before = omp_get_max_threads();
  omp_set_num_threads(threads);
  run();
  omp_set_num_threads(before);
}

}  // namespace tern
