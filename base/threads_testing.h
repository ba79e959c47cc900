#pragma once
// For tests: teams of another size. The program sets them in apps/ only.

#include <omp.h>

namespace tern {

/// Runs with teams of so many threads on this thread, then restores the number.
template <class Run>
void with_threads(int threads, Run run) {
  const int before = omp_get_max_threads();
  omp_set_num_threads(threads);
  run();
  omp_set_num_threads(before);
}

}  // namespace tern
