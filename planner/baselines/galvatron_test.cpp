#include "planner/baselines/galvatron.h"

#include <gtest/gtest.h>

#include <chrono>
#include <iostream>

#include "base/error.h"
#include "planner/instance/price.h"
#include "planner/instance/search.h"

namespace tern {
namespace {

std::vector<GalvatronLayer> layers(int zero3_recomputed, int zero3, int recomputed, int plain) {
  std::vector<GalvatronLayer> l(zero3_recomputed, {true, true});
  l.insert(l.end(), zero3, {true, false});
  l.insert(l.end(), recomputed, {false, true});
  l.insert(l.end(), plain, {false, false});
  return l;
}

// The plans and figures that its own search prints (its golden test at 32 chunks; its full search, 134 s).
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

// Its best plan and ours on the simulator, under its tables and its memory rule: all its outer choices, stages uneven.
TEST(Galvatron, OnTheSimulatorOurPlanIsFasterThanIts) {
  const GalvatronPlan its{.stages = 2, .chunks = 64, .tensor = 4, .vocab_tensor = 4, .layers = layers(0, 0, 3, 25)};
  const Instance same = galvatron_instance(its, PipelineSchedule::one_f_one_b);
  const Priced priced = price(same, galvatron_assignment(its));
  EXPECT_EQ(galvatron_memory(its, galvatron_assignment(its)), galvatron_memory(its));
  const SearchResult uneven = search(same, {.simulations = 1000});
  ASSERT_TRUE(uneven.found);
  EXPECT_LT(uneven.makespan_ps, priced.makespan);
  EXPECT_LE(galvatron_memory(its, uneven.assignment), kGalvatronMemory);
  const auto rate = [](int64_t ps) { return 64 / (static_cast<double>(ps) * 1e-12); };

  int64_t best = uneven.makespan_ps + 1;  // its own outer choice is among those below
  std::string told;
  for (int stages = 1; stages <= 8; stages *= 2)
    for (int tensor = 1; stages * tensor <= 8; tensor *= 2)
      for (int vocab = 1; stages * vocab <= 8; vocab *= 2)
        for (int chunks = 1; chunks <= 64; chunks *= 2)
          for (const PipelineSchedule s : {PipelineSchedule::one_f_one_b, PipelineSchedule::deep_one_f_one_b}) {
            const GalvatronPlan p{.stages = stages, .chunks = chunks, .tensor = tensor, .vocab_tensor = vocab};
            if (64 / chunks % (8 / stages / tensor) || 64 / chunks % (8 / stages / vocab)) continue;
            const SearchResult r =
                search(galvatron_instance(p, s), {.upper_bound = best, .simulations = 100, .labels = 100'000});
            if (!r.found || r.makespan_ps >= best) continue;
            best = r.makespan_ps;
            told = std::string(name_of(s)) + ", " + std::to_string(stages) + " stages, tensor " +
                   std::to_string(tensor) + " (vocabulary " + std::to_string(vocab) + "), " + std::to_string(chunks) +
                   " micro-batches";
            if (s == PipelineSchedule::one_f_one_b) { EXPECT_LE(galvatron_memory(p, r.assignment), kGalvatronMemory); }
          }
  EXPECT_LE(best, uneven.makespan_ps);
  std::cout << "samples/s on the simulator: its plan " << rate(priced.makespan) << ", uneven stages "
            << rate(uneven.makespan_ps) << ", best " << rate(best) << " (" << told << ")\n";
}

TEST(Galvatron, RefusesDegreesThatDoNotDivide) {
  EXPECT_THROW(galvatron_throughput({.stages = 3, .layers = layers(0, 0, 0, 28)}), Error);
  EXPECT_THROW(galvatron_throughput({.stages = 2, .tensor = 8, .layers = layers(0, 0, 0, 28)}), Error);
  EXPECT_THROW(galvatron_throughput({.layers = layers(0, 0, 0, 3)}), Error);
}

}  // namespace
}  // namespace tern
