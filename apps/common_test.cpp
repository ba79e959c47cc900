#include "apps/weights_options.h"

#include <gtest/gtest.h>

#include "base/system.h"
#include "infer/memory_fit.h"

namespace tern {
namespace {

TEST(Weights, ACopyPaysForManyTokensWithHugePagesAndRoomForBoth) {
  constexpr int64_t kGiB = int64_t{1} << 30;
  const InferenceFit fit{.weights = 2 * kGiB, .kv_cache = kGiB, .loading_peak = 2 * kGiB};
  MemoryFacts memory{.available_bytes = 5 * kGiB, .transparent_huge_pages = "madvise"};
  EXPECT_TRUE(copy_pays(256, memory, fit));
  EXPECT_FALSE(copy_pays(255, memory, fit));
  memory.transparent_huge_pages = "always";
  EXPECT_TRUE(copy_pays(256, memory, fit));
  memory.available_bytes -= 1;
  EXPECT_FALSE(copy_pays(256, memory, fit)) << "the file's pages and the copy, the cache, no byte less";
  memory.available_bytes = 100 * kGiB;
  for (const char* pages : {"never", ""}) {
    memory.transparent_huge_pages = pages;
    EXPECT_FALSE(copy_pays(1 << 20, memory, fit)) << "from small pages a copy gains nothing";
  }
}

}  // namespace
}  // namespace tern
