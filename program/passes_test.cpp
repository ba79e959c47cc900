#include "program/passes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>

#include "program/placement_testing.h"
#include "program/simulate.h"
#include "program/validate.h"
#include "spec/recompute.h"

namespace tern {
namespace {

// Equal layers, `per_stage` to a virtual stage, everything recomputed.
PlacedCase recomputed(PipelineSchedule s, int stages, int micros, int per_stage) {
  Plan p{.job = {.seq = 16, .dtype = DType::f32}};
  p.choice = {.num_stages = stages, .chunks_per_stage = least_chunks(s), .schedule = s, .num_micro = micros};
  p.job.batch = micros;
  const int all = stages * least_chunks(s);
  for (int stage = 0; stage < all; ++stage)
    p.layers.push_back(
        {.first = stage * per_stage, .count = per_stage, .stage = stage, .strategy = {.recompute = Recompute::full}});
  return {small_spec(all * per_stage - 2), std::move(p)};
}

// Times that follow the instruction wherever it stands: of units alike, by operation; transfers and the step's end none.
std::vector<int64_t> plain_times(const Program& p, int64_t pass) {
  std::vector<int64_t> ps;
  for (const Instruction& i : p.instructions)
    ps.push_back(i.op == Opcode::forward || i.op == Opcode::backward_input || i.op == Opcode::backward_weight ||
                         i.op == Opcode::recompute
                     ? pass
                     : 0);
  return ps;
}
std::vector<int64_t> drawn_times(const Program& p, uint64_t seed) {
  std::vector<int64_t> ps;
  for (const Instruction& i : p.instructions) {
    const size_t drawn = std::hash<std::string>()(to_string(i) + std::to_string(i.rank) + std::to_string(seed));
    const bool none = i.op == Opcode::join || i.op == Opcode::norm || i.op == Opcode::recv;
    ps.push_back(none ? 0 : static_cast<int64_t>(drawn % 30));
  }
  return ps;
}

// How often each (op, unit, micro) runs.
std::map<std::tuple<Opcode, int, int>, int> work_of(const Program& p) {
  std::map<std::tuple<Opcode, int, int>, int> work;
  for (const Instruction& i : p.instructions) ++work[{i.op, i.unit, i.micro}];
  return work;
}

TEST(RecomputeEarly, ShortensOneForwardOneBackward) {
  for (const int p : {2, 4, 8}) {
    const PlacedCase c = recomputed(PipelineSchedule::one_f_one_b, p, 4 * p, 3);
    const Program plain = lower(c.spec, c.placement), early = recompute_early(plain, 0);
    EXPECT_LT(simulate(early, plain_times(early, 10)).makespan, simulate(plain, plain_times(plain, 10)).makespan) << p;
  }
}

TEST(RecomputeEarly, IsSoundNeverSlowerAndWithinItsBytes) {
  int faster = 0, more = 0;
  for (uint64_t seed = 0; seed < 160; ++seed) {
    const PlacedCase c =
        random_placed(kPipelineSchedules[seed % kPipelineSchedules.size()], {.offload = seed % 3 == 0}, 7000 + seed);
    const Program plain = lower(c.spec, c.placement);
    const int64_t spare = static_cast<int64_t>(seed % 4) * 20000;
    const Program early = recompute_early(plain, spare);
    SCOPED_TRACE(to_string(c.plan.choice) + " seed " + std::to_string(seed));
    ASSERT_EQ(validate(early), std::vector<std::string>{});
    ASSERT_EQ(work_of(early), work_of(plain));
    const Simulation a = simulate(plain, drawn_times(plain, seed)), b = simulate(early, drawn_times(early, seed));
    ASSERT_LE(b.makespan, a.makespan);
    for (size_t rank = 0; rank < a.peak.size(); ++rank) {
      ASSERT_LE(b.peak[rank][0], a.peak[rank][0] + spare);
      ASSERT_EQ(b.at_end[rank], a.at_end[rank]);
    }
    const Program released = recompute_early(plain, 0);
    faster += b.makespan < a.makespan;
    more += b.makespan < simulate(released, drawn_times(released, seed)).makespan;
  }
  EXPECT_GT(faster, 20);
  EXPECT_GT(more, 5);  // and bytes buy time
}

TEST(RecomputeEarly, MovesWhatOthersWaitForWithIt) {
  const PlacedCase c = recomputed(PipelineSchedule::one_f_one_b, 2, 4, 3);
  Program plain = lower(c.spec, c.placement);
  const auto is_moved = [](const Instruction& i) {
    return i.op == Opcode::recompute && i.rank == 0 && i.unit == 1 && i.micro == 1;
  };
  const auto moved = std::find_if(plain.instructions.begin(), plain.instructions.end(), is_moved);
  plain.instructions.back().waits.push_back(static_cast<int>(moved - plain.instructions.begin()));
  const Program early = recompute_early(plain, 1000000);
  const int now = early.instructions.back().waits.back();
  EXPECT_NE(now, plain.instructions.back().waits.back());
  EXPECT_TRUE(is_moved(early.instructions[now]));
}

TEST(RecomputeEarly, LeavesTheListAsItIsWithoutRecomputation) {
  PlacedCase c = recomputed(PipelineSchedule::one_f_one_b, 3, 6, 2);
  for (PlacedLayer& l : c.placement.layers) l.strategy.recompute = Recompute::none;
  const Program plain = lower(c.spec, c.placement);
  const Program early = recompute_early(plain, 1000);
  ASSERT_EQ(early.instructions.size(), plain.instructions.size());
  for (size_t k = 0; k < plain.instructions.size(); ++k) {
    EXPECT_EQ(to_string(early.instructions[k]), to_string(plain.instructions[k]));
    EXPECT_EQ(early.instructions[k].waits, plain.instructions[k].waits);
  }
}

}  // namespace
}  // namespace tern
