#include "base/threads.h"

#include <omp.h>

#include <latch>
#include <thread>

namespace tern {

int num_compute_threads() { return omp_get_max_threads(); }

// A team lives as long as the thread that started it.
struct ShortWaits::Team {
  std::latch started{1}, ends{1};
  std::thread first{[this] {
#pragma omp parallel num_threads(2)
    if (omp_get_thread_num() == 0) started.count_down();
    ends.wait();
  }};
  ~Team() {
    ends.count_down();
    first.join();
  }
};

ShortWaits::ShortWaits() : team_(std::make_unique<Team>()) { team_->started.wait(); }
ShortWaits::~ShortWaits() = default;

}  // namespace tern
