#include "comm/worker.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "base/threads_testing.h"

namespace tern {
namespace {

TEST(Worker, WorkersOfOneProcessShareNothingAndHaveTeamsOfTheirOwn) {
  std::vector<std::jthread> threads;
  for (int n = 1; n <= 4; ++n)
    threads.emplace_back([n] {
      with_threads(n, [n] {
        Worker worker;
        const Tensor t = worker.arena.allocate(DType::f32, {n}, MemoryClass::workspace);
        EXPECT_EQ(worker.arena.current_total(), 4 * n);
        EXPECT_EQ(worker.threads, n);
        EXPECT_EQ(worker.rank(), 0);
        int team = 0;
#pragma omp parallel reduction(+ : team)
        ++team;
        EXPECT_EQ(team, n);
      });
    });
}

TEST(Worker, ItsStopIsWhatItWasGiven) {
  std::atomic<bool> stop = false;
  const Worker stopped{.stop = stop}, other;
  stop = true;
  EXPECT_TRUE(stopped.stop);
  EXPECT_FALSE(other.stop);
}

}  // namespace
}  // namespace tern
