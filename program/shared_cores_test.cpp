#include "program/shared_cores.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/bug.h"
#include "program/dependencies.h"
#include "program/placement_testing.h"
#include "program/plan_program.h"

namespace tern {
namespace {

struct TimedCase {
  PlacedCase c;
  Program program;
  std::vector<int64_t> ps;
};

TimedCase random_timed(PipelineSchedule schedule, uint64_t seed) {
  PlacedCase c = random_placed(schedule, {}, seed);
  Program p = lower(c.spec, c.placement);
  std::vector<int64_t> ps = c.prices_of(p);
  return {std::move(c), std::move(p), std::move(ps)};
}

template <class Check>
void for_each_case(Check check) {
  for (const PipelineSchedule schedule : kPipelineSchedules)
    for (uint64_t seed = 1; seed <= 8; ++seed) {
      SCOPED_TRACE(std::to_string(static_cast<int>(schedule)) + " seed " + std::to_string(seed));
      check(random_timed(schedule, seed));
      if (::testing::Test::HasFatalFailure()) return;
    }
}

// What the result must obey, whoever made it: an instruction starts when the last that it waits for has ended, and between its start
// and its end it is given its time's work, at the speed that the instructions beside it leave.
void expect_work_is_shared(const TimedCase& t, const SharedCores& cores, const Simulation& s) {
  const Dependencies d = dependencies_of(t.program);
  const auto n = t.ps.size();
  std::set<int64_t> moments{0};
  std::map<int64_t, int64_t> more;  // by moment: how many more instructions run from it on
  for (size_t k = 0; k < n; ++k) {
    if (d.send_of[k] >= 0) {
      ASSERT_EQ(s.start[k], s.start[static_cast<size_t>(d.send_of[k])]);
      ASSERT_EQ(s.end[k], s.end[static_cast<size_t>(d.send_of[k])]);
      continue;
    }
    int64_t begin = 0;
    for (int at = d.first[k]; at < d.first[k + 1]; ++at)
      begin = std::max(begin, s.end[static_cast<size_t>(d.list[static_cast<size_t>(at)])]);
    ASSERT_EQ(s.start[k], begin) << k;
    if (t.ps[k] == 0) {
      ASSERT_EQ(s.end[k], begin) << k;
      continue;
    }
    moments.insert(s.start[k]), moments.insert(s.end[k]);
    ++more[s.start[k]], --more[s.end[k]];
  }
  // Work done since the beginning by an instruction that always runs, at each moment.
  std::map<int64_t, double> done{{0, 0.0}};
  int64_t running = 0, last = 0;
  double sum = 0;
  for (const int64_t moment : moments) {
    const int64_t at_work = running * t.program.devices_per_rank;
    if (at_work > 0)
      sum += static_cast<double>(moment - last) *
             std::min(static_cast<double>(cores.devices) / static_cast<double>(at_work),
                      static_cast<double>(cores.devices) / cores.at_once);
    done[moment] = sum, last = moment, running += more[moment];
  }
  for (size_t k = 0; k < n; ++k)
    if (t.ps[k] > 0 && d.send_of[k] < 0) {
      ASSERT_NEAR(done[s.end[k]] - done[s.start[k]], static_cast<double>(t.ps[k]),
                  4.0 * static_cast<double>(n))  // each moment is a whole picosecond
          << k;
    }
}

TEST(SharedCores, WorkIsSharedAmongWhatRuns) {
  for_each_case([](const TimedCase& t) {
    const int64_t devices = t.program.num_ranks * t.program.devices_per_rank;
    const auto all = static_cast<double>(devices);
    for (const double at_once : {1.0, (1 + all) / 2, std::min(1.75, all), all}) {
      const SharedCores cores{devices, at_once};
      ASSERT_NO_FATAL_FAILURE(expect_work_is_shared(t, cores, simulate(t.program, t.ps, cores)));
    }
  });
}

// Where one device alone is as fast as all together, all instructions take turns: the step is the sum of their times over the devices.
TEST(SharedCores, NothingHidesWhereAllCoresAreBusy) {
  for_each_case([](const TimedCase& t) {
    const int64_t devices = t.program.num_ranks * t.program.devices_per_rank;
    int64_t work = 0;
    const Dependencies d = dependencies_of(t.program);
    for (size_t k = 0; k < t.ps.size(); ++k) work += d.send_of[k] < 0 ? t.ps[k] : 0;
    const int64_t makespan = simulate(t.program, t.ps, {devices, 1}).makespan;
    ASSERT_EQ(makespan, work / t.program.num_ranks) << devices;
  });
}

TEST(SharedCores, BytesAndOwnCoresAreTheSimulators) {
  for_each_case([](const TimedCase& t) {
    const Simulation own = simulate(t.program, t.ps);
    // More cores than anything could use at once: no instruction slows another down.
    const int64_t many = std::ssize(t.ps) * t.program.devices_per_rank;
    const Simulation s = simulate(t.program, t.ps, {many, static_cast<double>(many)});
    ASSERT_EQ(s.start, own.start);
    ASSERT_EQ(s.end, own.end);
    ASSERT_EQ(s.makespan, own.makespan);
    for (size_t r = 0; r < own.ranks.size(); ++r) ASSERT_EQ(s.ranks[r].peak_bytes, own.ranks[r].peak_bytes);
  });
}

TEST(SharedCores, RefusesCoresThatCannotBe) {
  const TimedCase t = random_timed(PipelineSchedule::one_f_one_b, 1);
  EXPECT_THROW(simulate(t.program, t.ps, {2, 0}), Bug);
  EXPECT_THROW(simulate(t.program, t.ps, {2, 2.5}), Bug);
}

// A plan for a machine whose devices share cores has its Program timed so.
TEST(SharedCores, APlansProgramFollowsTheClusterFile) {
  int shorter = 0;
  for_each_case([&](const TimedCase& t) {
    PlacedCase c = t.c;
    const int64_t devices = c.plan.choice.devices();
    if (devices < 2 || devices > 8) return;
    c.say_stages();
    c.cluster.nodes[0].num_devices = devices, c.cluster.nodes[0].devices_at_once = 1;
    c.cluster.groups[0].count = 1;
    c.cluster.nodes[0].link.devices = devices;
    const auto priced = program_of_plan(c.spec, c.cluster, c.plan);
    ASSERT_TRUE(priced);
    const Machine machine = machine_of(c.cluster, 0);
    const LayerCosts costs(c.spec, c.plan.job, machine, c.plan.choice.mesh, c.plan.choice.micro_batch);
    PlacementCosts prices = c.prices;
    std::ranges::fill(prices.layers, &costs);
    const std::vector<int64_t> ps = instruction_times(t.program, c.spec, c.placement, prices);
    ASSERT_EQ(priced->step_ps, simulate(t.program, ps, {devices, 1}).makespan);
    shorter += priced->step_ps < simulate(t.program, ps).makespan;
  });
  EXPECT_GT(shorter, 0);
}

}  // namespace
}  // namespace tern
