#include "apps/threads.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/system.h"
#include "base/threads.h"

namespace tern {
namespace {

TEST(Threads, TheRequestRulesElseTheUsableCpus) {
  EXPECT_EQ(set_compute_threads(3), 3);
  EXPECT_EQ(num_compute_threads(), 3);
  EXPECT_EQ(set_compute_threads(0), read_cpu_facts().num_usable);
}

TEST(Threads, ThoseOfAllRanksAreCounted) {
  EXPECT_EQ(threads_that_take_turns(1, 2, 2), "");
  EXPECT_EQ(threads_that_take_turns(2, 2, 4), "");
  EXPECT_EQ(threads_that_take_turns(8, 1, 2), "") << "no fewer threads are possible";
  EXPECT_EQ(threads_that_take_turns(0, 8, 2), "");
  EXPECT_NE(threads_that_take_turns(1, 8, 2).find("8 threads on the 2 CPUs"), std::string::npos);
  EXPECT_NE(threads_that_take_turns(2, 8, 2).find("16 threads on the 2 CPUs"), std::string::npos);
  EXPECT_NE(threads_that_take_turns(8, 2, 2).find("16 threads on the 2 CPUs"), std::string::npos);
  EXPECT_NE(threads_that_take_turns(2, 8, 4).find("slower than --threads 2"), std::string::npos);
}

TEST(Threads, EachThreadHasItsOwnNumber) {
  const int here = set_compute_threads(2);
  std::thread([] {
    set_compute_threads(5);
    EXPECT_EQ(num_compute_threads(), 5);
  }).join();
  EXPECT_EQ(num_compute_threads(), here);
  set_compute_threads(0);
}

}  // namespace
}  // namespace tern
