#include <gtest/gtest.h>

#include <chrono>

#include "program/pipeline_order.h"

namespace tern {
namespace {

// As long as the planner asks for: four million operations. Seconds, where passes over all slots took minutes.
TEST(VHalf, AnOrderTakesTimeInProportionToItsOperations) {
  const PipelineShape shape{
      .schedule = PipelineSchedule::v_half, .num_devices = 8, .chunks_per_device = 2, .num_micro = 83'000};
  const auto start = std::chrono::steady_clock::now();
  const PipelineOrder order = v_half_order(shape, {});
  size_t operations = 0;
  for (const auto& line : order) operations += line.size();
  EXPECT_EQ(operations, size_t{6} * 8 * 83'000);
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), 30);
}

}  // namespace
}  // namespace tern
