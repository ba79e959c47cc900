// Steps of which a message is changed on its way: done once more from the same weights, with the bits of a run without faults; the second
// time, and where something else was made of it, the run ends and its checkpoint stands.
#include <gtest/gtest.h>

#include <functional>

#include "base/rng.h"
#include "comm/ledger.h"
#include "train/mesh_testing.h"

namespace tern {
namespace {

// Of two ranks. What rank 0 sends in a step: agree, the passes with their sums, the refusal of NORM, two messages of the ledger, in stages
// a barrier, totals, two of the ledger. A step that is done again begins again after agree.
struct Trial {
  TrainSettings settings;
  MeshCase mesh;
  std::string bits;
  std::vector<int64_t> before;  // messages of rank 0 before step s, of the run without faults
  int64_t in_step() const { return before[3] - before[2]; }
  int64_t again() const { return in_step() - 4 - (mesh.stages > 1 ? 1 : 0); }
};

Wrap with_changes(const std::vector<TransportFault>& faults, std::atomic<int64_t>& sends) {
  return [&](std::unique_ptr<Transport> t) {
    if (t->rank() == 0) {
      t = std::make_unique<CountingTransport>(std::move(t), sends);
      for (const TransportFault& f : faults) t = faulty(std::move(t), f);
    }
    return with_ledger(std::move(t));
  };
}

TrainResult run(const Trial& r, const std::vector<TransportFault>& faults, MemoryIo& io, const TrainHooks& hooks,
                std::atomic<int64_t>& sends) {
  TrainSettings s = r.settings;
  if (r.mesh.stages > 1) s.plan = plan_of(s, r.mesh), s.plan_path = "plan.json";
  s.sum_order.groups = r.mesh.data, s.zero = r.mesh.zero;
  return train_on(s, 2, io, hooks, kNeverStops, with_changes(faults, sends));
}

Trial without_faults(const RunInputs& inputs, const MeshCase& mesh, int64_t steps) {
  Trial r{.settings = settings_of(inputs, DType::f32), .mesh = mesh};
  r.settings.schedule.total_steps = steps, r.settings.batch = 2;
  r.settings.eval_every = r.settings.checkpoint_every = 0, r.settings.valid_data.clear();
  std::atomic<int64_t> sends = 0;
  r.before.assign(2, 0);
  MemoryIo io;
  const TrainResult result = run(r, {}, io, {.step = [&](const StepReport&) { r.before.push_back(sends); }}, sends);
  r.bits = bits_of(result, io);
  for (int64_t step = 2; step <= steps; ++step)
    EXPECT_EQ(r.before[static_cast<size_t>(step + 1)] - r.before[static_cast<size_t>(step)], r.in_step());
  return r;
}

// A changed bit in each step but the first.
void expect_done_again(const Trial& r, uint64_t seed) {
  const int64_t steps = r.settings.schedule.total_steps;
  std::vector<TransportFault> faults;
  for (int64_t step = 2; step <= steps; ++step) {
    const auto draw = [&](uint64_t of) {
      return static_cast<int64_t>(random_uniform({seed, of}, static_cast<uint64_t>(step)) * 1e9);
    };
    faults.push_back({.kind = TransportFaultKind::corrupt,
                      .at_send = r.before[static_cast<size_t>(step)] + (step - 2) * r.again() + draw(1) % r.again(),
                      .bit = static_cast<uint64_t>(draw(2))});
  }
  std::atomic<int64_t> sends = 0;
  int64_t again = 0;
  MemoryIo io;
  const TrainResult result =
      run(r, faults, io,
          {.note = [&](const std::string& text) { again += text.find("the step is done again") != std::string::npos; }},
          sends);
  EXPECT_EQ(again, steps - 1);
  EXPECT_EQ(result.byte_mismatches, 0);
  EXPECT_TRUE(bits_of(result, io) == r.bits);
}

const MeshCase kMeshes[] = {{.data = 2},
                            {.data = 2, .zero = 1},
                            {.data = 2, .zero = 3},
                            {.stages = 2},
                            {.schedule = PipelineSchedule::zb_h1, .stages = 2}};

TEST(TrainRefused, AStepWithAChangedBitIsDoneOnceMoreWithTheBitsOfNone) {
  for (const bool tied : {false, true}) {
    const RunInputs inputs(tied);
    for (const MeshCase& mesh : kMeshes) {
      SCOPED_TRACE(to_string(mesh));
      expect_done_again(without_faults(inputs, mesh, 5), 1);
    }
  }
}

TEST(TrainRefusedSlow, FiveHundredChangedBits) {
  const RunInputs inputs(true);
  for (const MeshCase& mesh : kMeshes) {
    SCOPED_TRACE(to_string(mesh));
    const Trial r = without_faults(inputs, mesh, 26);
    for (uint64_t seed = 2; seed < 6; ++seed) expect_done_again(r, seed);
  }
}

TEST(TrainRefused, TheSecondTimeAndWhereTheUpdateWasMadeTheRunEnds) {
  const RunInputs inputs(false);
  const Trial r = without_faults(inputs, {.data = 2, .zero = 1}, 4);
  const auto ends = [&](const std::vector<int64_t>& places) -> std::string {
    std::vector<TransportFault> faults;
    for (const int64_t at : places) faults.push_back({TransportFaultKind::corrupt, r.before[3] + at});
    std::atomic<int64_t> sends = 0;
    MemoryIo io;
    try {
      run(r, faults, io, {}, sends);
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::peer);
      return e.what();
    }
    return "finished";
  };
  const int64_t passes = r.in_step() - 7, totals = r.in_step() - 3;
  for (int64_t at = 0; at < passes; at += 3)
    EXPECT_NE(
        ends({1 + at, 1 + passes + 3 + at}).find("step 3: a message of rank 0 to rank 1 was changed on its way, and "),
        std::string::npos)
        << at;
  EXPECT_EQ(ends({1}), "finished");
  EXPECT_NE(
      ends({totals}).find("step 3: a message of rank 0 to rank 1 was changed on its way, after which the update "),
      std::string::npos);
}

}  // namespace
}  // namespace tern
