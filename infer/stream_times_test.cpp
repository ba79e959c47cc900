#include "infer/stream_times.h"

#include <gtest/gtest.h>

#include "base/threads.h"
#include "kernels/cpu/matmul.h"
#include "store/extent.h"

namespace tern {
namespace {

// What stays is packed only where that takes no more bytes; else it is decoded for each token, as what streams.
TEST(StreamTimes, CodedWeightsThatStayHaveTheRateOfCodedOnes) {
  constexpr int64_t kIn = 256, kRows = 128;
  const StreamRates rates{.disk = 1e9, .kept = 4e9, .coded = 2e9};
  const auto step_of = [&](WeightType type, DType dtype, bool stays) {
    StreamPlan plan{.bands = {}, .dtype = dtype, .stays = {stays}};
    const FileBand band{.rows = kRows, .extent = {.bytes = stored_bytes(type, kRows, kIn)}, .type = type};
    plan.bands.matrices.push_back({.name = "w", .out = kRows, .in = kIn, .bands = {band}});
    const std::vector<PassStep> steps = pass_steps(plan, rates);
    return steps.at(0);
  };
  const auto ps = [](int64_t bytes, double rate) { return picoseconds(static_cast<double>(bytes), rate); };
  const int64_t codes = stored_bytes(WeightType::lc4, kRows, kIn), dense = kRows * kIn * 2;
  for (const bool stays : {true, false}) {
    EXPECT_EQ(step_of(WeightType::lc4, DType::bf16, stays).forward_ps, ps(codes, rates.coded)) << stays;
    EXPECT_EQ(step_of(WeightType::bf16, DType::f32, stays).forward_ps, ps(dense, rates.coded)) << stays;
    EXPECT_EQ(step_of(WeightType::lc4, DType::bf16, stays).load_ps == 0, stays);
  }
  const int64_t packed = packed_bytes(DType::bf16, kRows, kIn);
  EXPECT_EQ(step_of(WeightType::bf16, DType::bf16, true).forward_ps,
            packed <= dense ? ps(packed, rates.kept) : ps(dense, rates.coded));
  EXPECT_EQ(step_of(WeightType::bf16, DType::bf16, false).forward_ps, ps(dense, rates.coded));
}

// In integers all that is coded has one rate, and reading takes its share of the cores that multiply.
TEST(StreamTimes, ReadingTakesOfTheCoresThatMultiply) {
  constexpr int64_t kIn = 256, kRows = 2048;
  const int64_t bytes = stored_bytes(WeightType::q8_0, kRows, kIn);
  const FileBand band{
      .rows = kRows, .extent = {.offset = 100, .bytes = bytes}, .type = WeightType::q8_0, .in_integers = true};
  const StreamPlan plan{.bands = {.paths = {},
                                  .matrices = {{"w", 2 * kRows, kIn, {band, band}}},
                                  .experts = {},
                                  .table = {},
                                  .unused = {},
                                  .coded = {}},
                        .dtype = DType::f32,
                        .stays = {true, false}};
  StreamRates rates{.disk = 1e12, .kept = 4e9, .coded = 2e9};
  const std::vector<PassStep> bare = pass_steps(plan, rates);
  EXPECT_EQ(bare[0].forward_ps, picoseconds(static_cast<double>(bytes), 2e9));
  EXPECT_EQ(bare[1].forward_ps, bare[0].forward_ps);
  const StreamTimes times = stream_times(plan, rates);
  EXPECT_EQ(times.pass_s, times.products_s);
  rates.read_cpu = 1e-10 * num_compute_threads();
  const std::vector<PassStep> steps = pass_steps(plan, rates);
  EXPECT_EQ(steps[0].forward_ps, bare[0].forward_ps);
  const auto blocks = static_cast<double>(blocks_of(band.extent, kStreamAlignment).bytes);
  EXPECT_NEAR(static_cast<double>(steps[1].forward_ps - bare[1].forward_ps), 100 * blocks, 1);
  EXPECT_EQ(stream_times(plan, rates).products_s, times.products_s);
  EXPECT_NEAR(stream_times(plan, rates).pass_s - times.pass_s, 1e-10 * blocks, 1e-11);
}

}  // namespace
}  // namespace tern
