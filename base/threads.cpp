#include "base/threads.h"

#include <omp.h>

namespace tern {

int num_compute_threads() { return omp_get_max_threads(); }

}  // namespace tern
