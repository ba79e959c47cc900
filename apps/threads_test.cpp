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
