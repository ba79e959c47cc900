#include "apps/threads.h"

#include <fmt/format.h>
#include <omp.h>

#include <algorithm>

#include "base/system.h"
#include "base/threads.h"
#include "base/units.h"

namespace tern {

std::string threads_that_take_turns(int64_t ranks, int64_t threads, int usable) {
  if (threads <= 1 || ranks * threads <= usable) return "";
  const std::string cpus = counted(usable, "CPU");
  if (ranks == 1)
    return fmt::format("{} threads on the {} this process may use take turns, which is slower than {}", threads, cpus,
                       usable);
  return fmt::format(
      "{} ranks of {} threads are {} threads on the {} they may use and take turns, which is slower than --threads {}",
      ranks, threads, ranks * threads, cpus, std::max<int64_t>(1, usable / ranks));
}

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
