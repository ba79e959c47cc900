#include "train/peak_rate.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "base/io.h"

namespace tern {
namespace {

struct CacheFolder {
  std::string path, before;
  CacheFolder() {
    if (const char* cache = std::getenv("XDG_CACHE_HOME")) before = cache;
    path = testing::TempDir() + "tern-peak-XXXXXX";
    EXPECT_NE(::mkdtemp(path.data()), nullptr);
    ::setenv("XDG_CACHE_HOME", path.c_str(), 1);
  }
  ~CacheFolder() {
    remove_all(real_io(), path);
    before.empty() ? ::unsetenv("XDG_CACHE_HOME") : ::setenv("XDG_CACHE_HOME", before.c_str(), 1);
  }
};

TEST(PeakRate, IsMeasuredOnceAndOnlyThenSaysSo) {
  const CacheFolder cache;
  int measured = 0;
  const PeakRate first = peak_rate(DType::f32, Multiply::exact, [&] { ++measured; });
  EXPECT_GT(first.flops_per_s, 0);
  EXPECT_TRUE(first.measured_now);
  const PeakRate again = peak_rate(DType::f32, Multiply::exact, [&] { ++measured; });
  EXPECT_EQ(measured, 1);
  EXPECT_FALSE(again.measured_now);
  EXPECT_EQ(again.flops_per_s, first.flops_per_s);
  EXPECT_TRUE(again.measured.ends_with(" UTC")) << again.measured;
}

TEST(PeakRate, ARunThatBeatsItRaisesItAndTheHighestStays) {
  const CacheFolder cache;
  const double first = peak_rate(DType::f32, Multiply::exact).flops_per_s;
  const PeakRate raised = raise_peak_rate(DType::f32, Multiply::exact, 1000 * first, false);
  EXPECT_EQ(raised.flops_per_s, 1000 * first);
  EXPECT_EQ(peak_rate(DType::f32, Multiply::exact).flops_per_s, 1000 * first);
  EXPECT_EQ(raise_peak_rate(DType::f32, Multiply::exact, first, true).flops_per_s, 1000 * first)
      << "neither a slower step nor a slower probe lowers it";
}

}  // namespace
}  // namespace tern
