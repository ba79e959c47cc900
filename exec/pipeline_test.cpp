// Pipelines on virtual ranks: every schedule has the bits of the same micro-batches one after the other on one rank, with uneven
// stages, tied tables and recomputation.
#include <gtest/gtest.h>

#include "base/error.h"
#include "comm/group.h"
#include "comm/ranks_testing.h"
#include "exec/executor_testing.h"
#include "exec/stage_messages.h"
#include "program/generate.h"
#include "program/spread_head.h"
#include "program/validate.h"
#include "spec/recompute.h"

namespace tern {
namespace {

// What this rank holds of weights and states; of a parameter that several hold all must have the same.
void put_held(NamedBits& all, const Bench& run) {
  const OptimizerState& o = run.state;
  const auto put = [&](const std::string& name, const Tensor& t) {
    if (t.empty()) return;
    const auto* begin = static_cast<const std::byte*>(t.data());
    const std::vector<std::byte> bytes(begin, begin + t.bytes());
    const auto [at, fresh] = all.try_emplace(name, bytes);
    EXPECT_TRUE(fresh || at->second == bytes) << name << ": two ranks hold other bits";
  };
  for (size_t p = 0; p < o.infos.size(); ++p) {
    put(o.infos[p].name, o.master[p]);
    for (size_t s = 0; s < o.slots.size(); ++s) put(std::to_string(s) + "." + o.infos[p].name, o.slots[s][p]);
  }
}

struct PipelineResult {
  NamedBits state;
  double loss = 0, norm = 0;
};

struct PipelineCase {
  PipelineSchedule schedule;
  int stages, data = 1;
  Recompute recompute = Recompute::none;
  UpdateRule rule = UpdateRule::adamw;
};

constexpr int kPipelineMicro = 8, kPipelineSteps = 2;

Case model_of(const PipelineCase& p, DType dtype, bool tied) {
  const int chunks = std::max(least_chunks(p.schedule), traits_of(p.schedule).chunks == ChunkRule::several ? 2 : 1);
  Case c{"pipeline", dtype, Multiply::fast, tied, 16, 5, std::vector<int64_t>(kPipelineMicro, 1)};
  c.layers = std::max(2, p.stages * chunks - 1);
  return c;
}

Placement placement_of_pipeline(const ModelSpec& spec, const PipelineCase& p, const Case& c) {
  const auto layers = static_cast<int>(layers_of(spec).size());
  Plan plan{.parameters = num_parameters(spec)};
  plan.job = {.batch = kPipelineMicro,
              .seq = c.seq,
              .dtype = c.dtype,
              .gradients = c.dtype == DType::f64 ? DType::f64 : DType::f32,
              .optimizer = p.rule};
  OuterChoice& o = plan.choice;
  o.mesh.data = p.data, o.num_stages = p.stages, o.schedule = p.schedule, o.num_micro = kPipelineMicro / p.data;
  o.chunks_per_stage = std::max(least_chunks(p.schedule), traits_of(p.schedule).chunks == ChunkRule::several ? 2 : 1);
  const int stages = o.num_stages * o.chunks_per_stage;
  // Uneven: what is left over comes to the first stage.
  for (int l = 0; l < layers; ++l)
    plan.layers.push_back(
        {.first = l, .count = 1, .stage = std::max(0, l - (layers - stages)), .strategy = {.recompute = p.recompute}});
  Placement placed = placement_of(spec, plan, {.scratch = scratch_bytes(c.multiply, c.dtype)});
  if (order_follows_times(p.schedule)) {
    const auto n = static_cast<size_t>(stages);
    PipelineTimes t;
    t.forward.assign(n, 10), t.backward.assign(n, 10), t.weight.assign(n, 10);
    t.send_forward.assign(n - 1, 1), t.send_backward.assign(n - 1, 1);
    t.begin.assign(static_cast<size_t>(p.stages), 0), t.tail = t.begin;
    placed.order = pipeline_order(placed.shape, t);
  }
  return placed;
}

PipelineResult on_one_rank(const PipelineCase& p, const Case& c) {
  const UpdateConfig config = update_config(p.rule);
  Bench run(c, config);
  Placement placed = placement_of(run.spec, run.costs, Recompute::none);
  placed.groups = p.data, placed.update = config;
  const Program program = lower(run.spec, placed, 0);
  PipelineResult ran;
  for (int step = 1; step <= kPipelineSteps; ++step) {
    begin_step(*run.update, step, [](int64_t) { return 1e-2; });
    const ExecuteResult r = run.execute_with(program, c.multiply, 0.125);
    ran.loss = r.loss_sum, ran.norm = r.update->gradient_norm;
  }
  put_held(ran.state, run);
  return ran;
}

PipelineResult on_stages(const PipelineCase& p, const Case& c) {
  const UpdateConfig config = update_config(p.rule);
  PipelineResult ran;
  with_comms(p.stages * p.data, {.baton = true}, [&](Comm& world) {
    Bench run(c, config);
    const Placement placed = placement_of_pipeline(run.spec, p, c);
    const Program all = lower(run.spec, placed);
    ASSERT_EQ(validate(all), std::vector<std::string>{});
    const int device = world.rank() / p.data, replica = world.rank() % p.data;
    std::vector<int> home(run.spec.units.size());
    for (const PlacedLayer& l : placed.layers)
      for (int u = l.layer.first; u < l.layer.first + l.layer.count; ++u) home[u] = device_of(placed.shape, l.stage);
    const std::vector<int> zero(run.spec.units.size(), 0);
    run.state = make_optimizer_state(run.spec, run.weights, config, run.arena,
                                     make_mesh_shares(run.spec, p.rule, zero, home, {device, replica, p.data}));
    run.update.emplace(make_update_pass(run.spec, run.state, config, run.weights, run.gradients));
    if (run.spec.head().tied && home.back() == device && home.front() != device)
      run.update->gradients[0] = dense_rows(head_of(run.gradients).projection);
    std::vector<int> same_stage, same_table{home.front() * p.data + replica};
    for (int d = 0; d < p.data; ++d) same_stage.push_back(device * p.data + d);
    if (home.back() != home.front()) same_table.push_back(home.back() * p.data + replica);
    const bool has_table = device == home.front() || device == home.back();
    std::ranges::sort(same_table);
    Comm replicas(group_of(world.transport(), same_stage));
    std::optional<Comm> tables;
    if (has_table) tables.emplace(group_of(world.transport(), same_table));
    keep_share(run, replica, p.data);
    const Program mine = lower(run.spec, placed, device);
    for (int step = 1; step <= kPipelineSteps; ++step) {
      begin_step(*run.update, step, [](int64_t) { return 1e-2; });
      const ExecuteResult r = execute(mine, {.spec = run.spec,
                                             .weights = run.source,
                                             .gradients = &run.gradients,
                                             .micro_batches = run.batches,
                                             .loss_scale = 0.125,
                                             .compute = {run.arena, c.multiply},
                                             .update = &*run.update,
                                             .world = &world,
                                             .replicas = &replicas,
                                             .tables = tables ? &*tables : nullptr,
                                             .arrivals = arrivals_of(all, device),
                                             .step_targets = 1});
      ASSERT_EQ(describe_mismatches(r), "");
      ASSERT_TRUE(r.update);
      ran.norm = r.update->gradient_norm;
      std::vector<double> losses(run.batches.size());
      std::ranges::copy(r.losses, losses.begin());
      const std::vector<double> everyones = world.gather(losses);
      if (world.rank() > 0) continue;
      ran.loss = 0;
      for (const double loss : everyones) ran.loss += loss;  // zeros where no head is
    }
    put_held(ran.state, run);
  });
  return ran;
}

void expect_equal(const PipelineCase& p, DType dtype, bool tied) {
  SCOPED_TRACE(std::string(name_of(p.schedule)) + (tied ? " tied " : " ") + std::to_string(p.stages) + " stages × " +
               std::to_string(p.data));
  const Case c = model_of(p, dtype, tied);
  const PipelineResult want = on_one_rank(p, c), got = on_stages(p, c);
  EXPECT_EQ(got.norm, want.norm);
  if (p.data == 1) { EXPECT_EQ(got.loss, want.loss); }
  EXPECT_EQ(got.state.size(), want.state.size());
  for (const auto& [name, bytes] : want.state)
    EXPECT_TRUE(got.state.contains(name) && got.state.at(name) == bytes) << name;
}

class Pipelines : public testing::TestWithParam<PipelineSchedule> {};
INSTANTIATE_TEST_SUITE_P(Schedules, Pipelines, testing::ValuesIn(kPipelineSchedules), [](const auto& one) {
  std::string name(name_of(one.param));
  std::erase_if(name, [](char x) { return !std::isalnum(static_cast<unsigned char>(x)); });
  return name;
});

TEST_P(Pipelines, HaveTheBitsOfOneRank) {
  for (const int stages : {2, 4})
    for (const bool tied : {false, true}) expect_equal({GetParam(), stages}, DType::f32, tied);
}

TEST(PipelinesSlow, EightStagesHaveTheBitsOfOneRank) {
  for (const PipelineSchedule schedule : kPipelineSchedules)
    for (const bool tied : {false, true}) expect_equal({schedule, 8}, DType::f32, tied);
}

TEST(PipelinesSlow, TwoAndEightStagesThatComputeAgainHaveTheBitsOfOneRank) {
  for (const PipelineSchedule schedule : kPipelineSchedules)
    for (const int stages : {2, 8})
      for (const bool tied : {false, true})
        expect_equal({.schedule = schedule, .stages = stages, .recompute = Recompute::full}, DType::f32, tied);
}

TEST_P(Pipelines, AlsoWhenTheyComputeAgainWhatTheyDidNotKeep) {
  expect_equal({.schedule = GetParam(), .stages = 4, .recompute = Recompute::full}, DType::bf16, true);
}

TEST_P(Pipelines, AndWithReplicasOfEachStage) {
  const PipelineShape shape{GetParam(), 2, std::max(2, least_chunks(GetParam())), kPipelineMicro};
  const bool meets = least_chunks(GetParam()) > 1 && device_of(shape, shape.num_virtual_stages() - 1) == 0;
  for (const bool tied : {false, true}) {
    const PipelineCase p{.schedule = GetParam(), .stages = 2, .data = 2};
    if (tied && meets)
      EXPECT_THROW(on_stages(p, model_of(p, DType::f32, tied)), Error) << "refused by name";
    else
      expect_equal(p, DType::f32, tied);
  }
}

TEST(PipelineRules, EveryUpdateRule) {
  for (const UpdateRule rule : kUpdateRules)
    expect_equal({.schedule = PipelineSchedule::one_f_one_b, .stages = 2, .rule = rule}, DType::bf16, true);
}

TEST(PipelineRules, ASpreadHeadIsRefusedByName) {
  const PipelineCase p{.schedule = PipelineSchedule::one_f_one_b, .stages = 2};
  const Case c = model_of(p, DType::f32, false);
  Bench run(c);
  const Placement placed = placement_of_pipeline(run.spec, p, c);
  EXPECT_NO_THROW(require_executable(lower(run.spec, placed), 2));
  try {
    require_executable(spread_head(run.spec, placed), 2);
    ADD_FAILURE() << "taken";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::usage);
    EXPECT_NE(std::string(e.what()).find("spreads the head over 2 devices by rows of the vocabulary"),
              std::string::npos)
        << e.what();
  }
}

}  // namespace
}  // namespace tern
