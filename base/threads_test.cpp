#include "base/threads.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <omp.h>

#include <chrono>
#include <cstdlib>
#include <ctime>
#include <thread>

namespace tern {
namespace {

// Of all threads, while a team of all cores waits for one region after another.
double cpu_seconds_of_waiting() {
  const std::clock_t begin = std::clock();
  for (int i = 0; i < 50; ++i) {
#pragma omp parallel num_threads(omp_get_num_procs())
    std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(4));
  }
  return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
}

// libgomp reads how long threads spin while it is loaded: so the test starts its program again, with a long time.
TEST(ShortWaits, LetThreadsSleepWhileOneLives) {
  if (omp_get_num_procs() == 1) GTEST_SKIP() << "one core: no thread waits";
  if (::dlsym(RTLD_DEFAULT, "kmp_set_blocktime")) GTEST_SKIP() << "LLVM's library of OpenMP";
  if (!std::getenv("GOMP_SPINCOUNT")) {
    const int status =
        std::system("env -u OMP_WAIT_POLICY GOMP_SPINCOUNT=10000000 /proc/$PPID/exe --gtest_filter='ShortWaits.*' >&2");
    EXPECT_EQ(status, 0);
    return;
  }
  const double before = cpu_seconds_of_waiting();
  double with = 0;
  {
    const ShortWaits waits;
    cpu_seconds_of_waiting();
    with = cpu_seconds_of_waiting();
  }
  const double after = cpu_seconds_of_waiting();
  EXPECT_LT(with, 0.5 * before);
  EXPECT_LT(with, 0.5 * after);
}

}  // namespace
}  // namespace tern
