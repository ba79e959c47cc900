#include "base/threads.h"

#include <gtest/gtest.h>

#include "base/system.h"

namespace tern {
namespace {

TEST(Threads, TheRequestRulesElseTheUsableCpus) {
  EXPECT_EQ(set_compute_threads(3), 3);
  EXPECT_EQ(num_compute_threads(), 3);
  EXPECT_EQ(set_compute_threads(0), read_cpu_facts().num_usable);
}

}  // namespace
}  // namespace tern
