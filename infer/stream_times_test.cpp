#include "infer/stream_times.h"

#include <gtest/gtest.h>

#include "kernels/cpu/matmul.h"

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

}  // namespace
}  // namespace tern
