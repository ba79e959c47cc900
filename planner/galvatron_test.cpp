#include "planner/galvatron.h"

#include <gtest/gtest.h>

#include <chrono>

#include "base/error.h"

namespace tern {
namespace {

std::vector<GalvatronLayer> layers(int zero3_recomputed, int zero3, int recomputed, int plain) {
  std::vector<GalvatronLayer> l(zero3_recomputed, {true, true});
  l.insert(l.end(), zero3, {true, false});
  l.insert(l.end(), recomputed, {false, true});
  l.insert(l.end(), plain, {false, false});
  return l;
}

// The plans and figures that its own search prints (methods: its golden test at 32 chunks; its full search, 134 s).
TEST(Galvatron, ItsPlansCostWhatItSays) {
  const GalvatronPlan golden{.stages = 1, .chunks = 32, .tensor = 4, .vocab_tensor = 8, .layers = layers(14, 12, 0, 2)};
  EXPECT_NEAR(galvatron_throughput(golden), 2.6485091403918064, 1e-6);
  EXPECT_LE(galvatron_memory(golden), kGalvatronMemory);
  const GalvatronPlan full{.stages = 2, .chunks = 64, .tensor = 4, .vocab_tensor = 4, .layers = layers(0, 0, 3, 25)};
  EXPECT_NEAR(galvatron_throughput(full), 2.911827, 1e-6);
  EXPECT_LE(galvatron_memory(full), kGalvatronMemory);
  const GalvatronPlan tighter{.stages = 2, .chunks = 64, .tensor = 4, .vocab_tensor = 4, .layers = layers(0, 0, 2, 26)};
  EXPECT_GT(galvatron_memory(tighter), kGalvatronMemory);  // why it recomputes three
}

TEST(Galvatron, TheSearchInItsSpaceIsNoWorseAndQuick) {
  const auto start = std::chrono::steady_clock::now();
  const GalvatronAnswer a = galvatron_search();
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), 1.0);
  EXPECT_GE(a.throughput, 2.911827 - 1e-6);
  EXPECT_NEAR(a.throughput, galvatron_throughput(a.plan), 1e-12);
  EXPECT_LE(galvatron_memory(a.plan), kGalvatronMemory);
  EXPECT_GT(a.plans, 30);
  RecordProperty("throughput", std::to_string(a.throughput));
}

TEST(Galvatron, RefusesDegreesThatDoNotDivide) {
  EXPECT_THROW(galvatron_throughput({.stages = 3, .layers = layers(0, 0, 0, 28)}), Error);
  EXPECT_THROW(galvatron_throughput({.stages = 2, .tensor = 8, .layers = layers(0, 0, 0, 28)}), Error);
  EXPECT_THROW(galvatron_throughput({.layers = layers(0, 0, 0, 3)}), Error);
}

}  // namespace
}  // namespace tern
