#include "apps/threads.h"

#include <omp.h>

#include "base/system.h"

namespace tern {

int set_compute_threads(int requested) {
  const int count = requested > 0 ? requested : read_cpu_facts().num_usable;
  omp_set_dynamic(0);  // results may depend on the count: the runtime must not change it
  omp_set_num_threads(count);
  return count;
}

}  // namespace tern
