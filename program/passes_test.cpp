#include "program/passes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "program/lower.h"
#include "program/simulate_ranks.h"
#include "program/validate_ranks.h"

namespace tern {
namespace {

constexpr auto& kAll = kPipelineSchedules;

// Equal layers, `per_stage` to a virtual stage; every number of a layer is given.
Program lowered(PipelineSchedule s, int stages, int micros, int per_stage, const CostVector& cost, int64_t send) {
  Instance in{.num_stages = stages, .num_micro = micros, .schedule = s};
  in.chunks_per_stage = least_chunks(s);
  const int layers = stages * in.chunks_per_stage * per_stage;
  in.cost.assign(layers, {cost});
  in.within.assign(layers - 1, {EdgeCost{}});
  in.across.assign(layers - 1, {EdgeCost{send, send}});
  Assignment a;
  for (int u = 0; u < layers; ++u) {
    a.stage.push_back(u / per_stage);
    a.strategy.push_back(0);
  }
  return lower(in, a);
}

// How often each (op, unit, micro) runs.
std::map<std::tuple<Opcode, int, int>, int> work_of(const Program& p) {
  std::map<std::tuple<Opcode, int, int>, int> work;
  for (const Instruction& i : p.instructions) ++work[{i.op, i.unit, i.micro}];
  return work;
}

TEST(RecomputeEarly, ShortensOneForwardOneBackward) {
  const CostVector c{.forward = 10, .backward = 10, .weight = 10, .recompute = 10};
  for (const int p : {2, 4, 8}) {
    const Program plain = lowered(PipelineSchedule::one_f_one_b, p, 4 * p, 1, c, 0);
    const int64_t before = simulate_ranks(plain).makespan, after = simulate_ranks(recompute_early(plain, 0)).makespan;
    EXPECT_EQ(before, (4 * p + p - 1) * 40);
    // The gradient's way through the stages no longer waits for a recomputation at each: one is hidden per stage of the
    // lead-out, all but the last stage's own.
    EXPECT_EQ(after, before - (p - 1) * 10) << p;
  }
}

TEST(RecomputeEarly, IsSoundNeverSlowerAndWithinItsBytes) {
  std::mt19937_64 random(11);
  const auto up_to = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n + 1)); };
  int faster = 0, more = 0;
  for (int k = 0; k < 400; ++k) {
    const CostVector c{.forward = up_to(20),
                       .backward = up_to(20),
                       .weight = up_to(20),
                       .recompute = 1 + up_to(20),
                       .entry_backward = k % 3 == 0 ? up_to(9) : 0,
                       .sync = up_to(30),
                       .update = up_to(5),
                       .held = {up_to(50), 0, 0},
                       .held_weight = up_to(50),
                       .transient = up_to(40)};
    const int stages = 1 + static_cast<int>(up_to(3));
    const Program plain = lowered(kAll[k % 8], stages, stages * (1 + static_cast<int>(up_to(2))),
                                  1 + static_cast<int>(up_to(3)), c, up_to(20));
    const int64_t spare = up_to(3) * 30;
    const Program early = recompute_early(plain, spare);
    ASSERT_EQ(validate_ranks(early), std::vector<std::string>{}) << k;
    ASSERT_EQ(work_of(early), work_of(plain)) << k;
    const RanksSimulation a = simulate_ranks(plain), b = simulate_ranks(early);
    ASSERT_LE(b.makespan, a.makespan) << k;
    for (int rank = 0; rank < stages; ++rank) {
      ASSERT_LE(b.peak[rank][0], a.peak[rank][0] + spare) << k;
      ASSERT_EQ(b.at_end[rank], a.at_end[rank]) << k;
    }
    faster += b.makespan < a.makespan;
    more += b.makespan < simulate_ranks(recompute_early(plain, 0)).makespan;
  }
  EXPECT_GT(faster, 100);
  EXPECT_GT(more, 20);  // and bytes buy time
}

TEST(RecomputeEarly, MovesWhatOthersWaitForWithIt) {
  const CostVector c{.forward = 5, .backward = 6, .weight = 4, .recompute = 5, .held = {8, 0, 0}, .transient = 3};
  Program plain = lowered(PipelineSchedule::one_f_one_b, 2, 4, 3, c, 2);
  const auto is_moved = [](const Instruction& i) {
    return i.op == Opcode::recompute && i.rank == 0 && i.unit == 0 && i.micro == 1;
  };
  const auto moved = std::find_if(plain.instructions.begin(), plain.instructions.end(), is_moved);
  plain.instructions.back().waits.push_back(static_cast<int>(moved - plain.instructions.begin()));
  const Program early = recompute_early(plain, 1000);
  const int now = early.instructions.back().waits.back();
  EXPECT_NE(now, plain.instructions.back().waits.back());
  EXPECT_TRUE(is_moved(early.instructions[now]));
}

TEST(RecomputeEarly, LeavesAProgramWithoutRecomputationAsItIs) {
  const Program plain =
      lowered(PipelineSchedule::zb_h1, 3, 6, 2, {.forward = 5, .backward = 6, .weight = 4, .held = {8, 0, 0}}, 2);
  const Program early = recompute_early(plain, 1000);
  ASSERT_EQ(early.instructions.size(), plain.instructions.size());
  for (size_t k = 0; k < plain.instructions.size(); ++k) {
    EXPECT_EQ(to_string(early.instructions[k]), to_string(plain.instructions[k]));
    EXPECT_EQ(early.instructions[k].reads, plain.instructions[k].reads);
  }
}

}  // namespace
}  // namespace tern
