// Two accounts of one assignment that share no code: the price that the search minimizes, stage by stage in closed
// form, and the Program that would be run, unit by unit on every clock with every allocation replayed.

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "planner/instance/price.h"
#include "planner/instance/random_instance.h"
#include "program/lower.h"
#include "program/simulate_ranks.h"
#include "program/validate_ranks.h"

namespace tern {
namespace {

constexpr auto& kAll = kPipelineSchedules;

struct Case {
  Instance instance;
  Assignment assignment;
};

Case random_case(PipelineSchedule schedule, bool tails, bool host_link, uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto between = [&](int low, int high) { return low + static_cast<int>(random() % uint64_t(high - low + 1)); };
  RandomInstance r{.strategies = between(1, 4), .stages = between(1, 5), .schedule = schedule};
  r.chunks = schedule == PipelineSchedule::interleaved ? between(1, 3) : is_v_shaped(schedule) ? 2 : 1;
  r.micro = schedule == PipelineSchedule::interleaved ? r.stages * between(1, 3) : between(1, 12);
  r.layers = r.stages * r.chunks + between(0, 8);
  r.tails = tails;
  r.host_link = host_link;
  r.begins = r.entries = r.transients = r.tiers = r.split = true;
  Case c{random_instance(r, seed), {}};
  std::vector<int> cuts;  // layers that begin a stage
  for (int u = 1; u < r.layers; ++u) cuts.push_back(u);
  std::shuffle(cuts.begin(), cuts.end(), random);
  cuts.resize(r.stages * r.chunks - 1);
  std::sort(cuts.begin(), cuts.end());
  for (int u = 0, stage = 0; u < r.layers; ++u) {
    if (stage < static_cast<int>(cuts.size()) && u == cuts[stage]) ++stage;
    c.assignment.stage.push_back(stage);
    c.assignment.strategy.push_back(between(0, r.strategies - 1));
  }
  return c;
}

TEST(PriceAndProgram, AgreeOnTimeAndBytesOfEverySchedule) {
  int both = 0, faster = 0;
  for (uint64_t seed = 0; seed < 480; ++seed) {
    const bool tails = seed / 8 % 2 != 0, host_link = seed / 16 % 2 != 0;
    const auto [in, a] = random_case(kAll[seed % kAll.size()], tails, host_link, seed);
    SCOPED_TRACE(std::string(name_of(in.schedule)) + " seed " + std::to_string(seed));
    const Priced priced = price(in, a);
    const Program program = lower(in, a);
    ASSERT_EQ(validate_ranks(program), std::vector<std::string>{});
    const RanksSimulation s = simulate_ranks(program);
    for (int rank = 0; rank < in.num_stages; ++rank) ASSERT_EQ(s.peak[rank], priced.peak[rank]) << "rank " << rank;
    // Where synchronisation meets a host link that ends late, or several chunks, the price is on the safe side.
    if (tails && (host_link || in.chunks_per_stage > 1)) {
      ASSERT_LE(s.makespan, priced.makespan);
      faster += s.makespan < priced.makespan;
    } else {
      ASSERT_EQ(s.makespan, priced.makespan);
      ++both;
    }
  }
  EXPECT_GE(both, 240);
  EXPECT_GE(faster, 1);
}

}  // namespace
}  // namespace tern
