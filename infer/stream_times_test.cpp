#include "infer/stream_times.h"

#include <gtest/gtest.h>

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

// Of weights in integers, as all that is coded has one rate then, whether it stays or not.
TEST(StreamTimes, WhatIsReadAndMultipliedAtTheSameTimeTakesLonger) {
  constexpr int64_t kIn = 256, kRows = 2048;
  const int64_t bytes = stored_bytes(WeightType::q8_0, kRows, kIn);
  const FileBand band{.rows = kRows, .extent = {.bytes = bytes}, .type = WeightType::q8_0, .in_integers = true};
  const auto plan_of = [&](std::vector<bool> stays) {
    StreamPlan plan{.bands = {}, .dtype = DType::f32, .stays = std::move(stays)};
    plan.bands.matrices.push_back({.name = "w", .out = 4 * kRows, .in = kIn, .bands = {band, band, band, band}});
    return plan;
  };
  const double one = static_cast<double>(blocks_of(band.extent, kStreamAlignment).bytes);
  for (const int streamed : {1, 2, 4}) {
    const StreamPlan plan = plan_of({streamed > 3, streamed < 2, streamed < 4, false});
    const double products_s = 4 * static_cast<double>(bytes) / 2e9;
    int reads = 0;
    for (const bool stays : plan.stays) reads += !stays;
    for (const double disk : {0.3e9, 1e9, 1e12}) {
      StreamRates rates{.disk = disk, .kept = 4e9, .coded = 2e9};
      EXPECT_NEAR(stream_times(plan, rates).products_s, products_s, 1e-11);
      const double bound = stream_times(plan, rates).bound_s();
      rates.disk_beside = 0.7 * disk, rates.slowed = 0.4;
      const OverlappedRates both = overlapped_rates(reads * one, products_s, rates);
      // Both work until one ends: its bytes and its share of the products; then the other alone.
      const double together = std::min(reads * one / rates.disk_beside, products_s / 0.6);
      const double left_bytes = reads * one - together * rates.disk_beside, left_s = products_s - 0.6 * together;
      const double want = together + left_bytes / disk + left_s;
      EXPECT_NEAR(std::max(reads * one / both.disk, products_s * both.slower), want, 1e-9 * want);
      EXPECT_NEAR(stream_times(plan, rates).bound_s(), bound, 1e-15) << "of each alone";
      EXPECT_GE(stream_times(plan, rates).pass_s, want * 0.999999);
      EXPECT_LE(stream_times(plan, rates).pass_s, reads * one / both.disk + products_s * both.slower + 1e-9);
    }
  }
  const OverlappedRates alone = overlapped_rates(1e9, 1, {.disk = 2e9, .kept = 1, .coded = 1});
  EXPECT_EQ(alone.disk, 2e9);
  EXPECT_EQ(alone.slower, 1);
}

TEST(StreamTimes, APassGivesEachSequenceAToken) {
  constexpr int64_t kIn = 256, kRows = 2048, kExpertRows = 64;
  const FileBand band{.rows = kRows, .extent = {.bytes = kRows * kIn * 4}, .type = WeightType::f32};
  const FileBand expert{.rows = kExpertRows, .extent = {.bytes = kExpertRows * kIn * 4}, .type = WeightType::f32};
  StreamPlan plan{.bands = {}, .dtype = DType::f32, .stays = {true, false}};
  plan.bands.matrices.push_back({.name = "w", .out = 2 * kRows, .in = kIn, .bands = {band, band}});
  StreamRates rates{.rows = 16, .disk = 1e9, .kept = 4e9, .coded = 2e9};
  const StreamTimes dense = stream_times(plan, rates);
  EXPECT_EQ(dense.tokens_per_s(), 16 / dense.pass_s);
  EXPECT_EQ(dense.bound_tokens_per_s(), 16 / dense.bound_s());

  // Of 8 experts, 2 of them for a token, 16 tokens choose 8·(1 − 0.75^16) = 7.92, rounded 8, each with products of its own rows.
  const FileMatrix of_expert{.name = "e", .out = kExpertRows, .in = kIn, .bands = {expert}};
  plan.bands.experts.push_back({.top_k = 2, .up = std::vector(8, of_expert), .down = std::vector(8, of_expert)});
  rates.experts = 5e8;
  const double bytes = 16 * static_cast<double>(expert.extent.bytes);  // both matrices of eight
  const StreamTimes mixture = stream_times(plan, rates, 0.25);
  EXPECT_NEAR(mixture.disk_s - dense.disk_s, 0.75 * bytes / rates.disk, 1e-12);
  EXPECT_NEAR(mixture.products_s - dense.products_s, bytes / rates.experts, 1e-12);
}

// Both experts are chosen and missing: four reads and four products of a second each, at half their rates while both work. A read, three times two
// seconds for a product and the next read, a product.
TEST(StreamTimes, ExpertsAreReadWhileOthersAreMultiplied) {
  constexpr int64_t kIn = 256, kRows = 64, kBytes = kRows * kIn * 4;
  const FileBand band{.rows = kRows, .extent = {.bytes = kBytes}, .type = WeightType::f32};
  const FileMatrix matrix{.name = "w", .out = kRows, .in = kIn, .bands = {band}};
  StreamPlan plan{.bands = {}, .dtype = DType::f32, .stays = {true}};
  plan.bands.matrices.push_back(matrix);
  StreamRates rates{.disk = kBytes, .kept = kBytes, .coded = kBytes, .disk_beside = kBytes / 2, .slowed = 0.5};
  const double dense = stream_times(plan, rates).pass_s;
  plan.bands.experts.push_back({.top_k = 2, .up = {matrix, matrix}, .down = {matrix, matrix}});
  EXPECT_NEAR(stream_times(plan, rates, 0).pass_s - dense, 8, 1e-9);
  EXPECT_NEAR(stream_times(plan, rates, 1).pass_s - dense, 4, 1e-9) << "all are there";
  rates.disk_beside = 0, rates.slowed = 0;
  EXPECT_NEAR(stream_times(plan, rates, 0).pass_s - dense, 5, 1e-9) << "each alone";
  rates.disk_experts = kBytes / 2;
  EXPECT_NEAR(stream_times(plan, rates, 0).pass_s - dense, 9, 1e-9) << "four reads of two seconds, a product";
  EXPECT_NEAR(stream_times(plan, rates, 0).disk_s, 4, 1e-9) << "the bound has the disk's own rate";
  rates.coded = rates.disk_experts = 0;
  EXPECT_NEAR(stream_times(plan, rates, 0).pass_s - dense, 4, 1e-9) << "products of no known rate";
}

}  // namespace
}  // namespace tern
