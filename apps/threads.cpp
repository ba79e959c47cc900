#include "apps/threads.h"

#include <omp.h>

#include <algorithm>

#include "base/system.h"
#include "base/threads.h"

namespace tern {

int set_compute_threads(int requested) {
  const int count = requested > 0 ? requested : read_cpu_facts().num_usable;
  omp_set_dynamic(0);  // results may depend on the count: the runtime must not change it
  omp_set_num_threads(count);
  return count;
}

ShareOfThreads::ShareOfThreads(int64_t ranks) : all_(num_compute_threads()) {
  set_compute_threads(static_cast<int>(std::max<int64_t>(1, all_ / ranks)));
}
ShareOfThreads::~ShareOfThreads() { set_compute_threads(all_); }

}  // namespace tern
