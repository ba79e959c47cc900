#include "base/region_errors.h"

#include <gtest/gtest.h>

#include <new>
#include <stdexcept>

namespace tern {
namespace {

TEST(RegionErrors, TheFirstExceptionOfATeamReachesTheThreadThatStartedIt) {
  RegionErrors errors;
  std::atomic<int> ran = 0;
#pragma omp parallel num_threads(4)
  {
    errors.guard([&] {
      ++ran;
      throw std::bad_alloc();
    });
#pragma omp for
    for (int i = 0; i < 8; ++i) errors.guard([] { throw std::runtime_error("a later one"); });
  }
  EXPECT_GE(ran, 1);
  EXPECT_TRUE(errors.any());
  EXPECT_THROW(errors.rethrow(), std::bad_alloc);
}

TEST(RegionErrors, WithoutOneNothingIsThrown) {
  RegionErrors errors;
#pragma omp parallel num_threads(2)
  errors.guard([] {});
  EXPECT_FALSE(errors.any());
  EXPECT_NO_THROW(errors.rethrow());
}

}  // namespace
}  // namespace tern
