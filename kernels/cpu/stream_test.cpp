#include "kernels/cpu/stream.h"

#include "kernels/kernel_testing.h"
#include "kernels/ref/stream_ref.h"

namespace tern {
namespace {

TEST(Stream, ReadsEveryElementOnceOnAnyNumberOfThreads) {
  for_each_isa([] {
    for (const int64_t n : {0, 1, 7, 31, 127, 128, 129, 1000, 65537}) {
      const auto x = random_values<float>("x", n);
      double size = 0;
      for (const float v : x) size += std::abs(v);
      const double want = stream_sum_ref(doubles(x)), error = size * kRoundoff<float> * 40;
      for (const int threads : {1, 2, 3})
        with_threads(threads, [&] { EXPECT_NEAR(stream_sum(x), want, error) << n << " elements, " << threads; });
      EXPECT_NEAR(stream_sum_again(x, 1), want, error);
      EXPECT_NEAR(stream_sum_again(x, 3), 3 * want, 4 * error);
    }
  });
}

}  // namespace
}  // namespace tern
