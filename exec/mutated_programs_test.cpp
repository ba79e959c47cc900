// Programs with one thing changed at random: the validator finds the fault, or the step ends on all of its ranks, be it with an error.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>

#include "comm/group.h"
#include "comm/ranks_testing.h"
#include "exec/executor_testing.h"
#include "exec/stage_messages.h"
#include "exec/tensor_testing.h"
#include "model/context_ranks.h"
#include "model/expert_ranks.h"
#include "program/lower.h"
#include "program/validate.h"
#include "spec/recompute.h"

namespace tern {
namespace {

struct Draw {
  uint64_t seed, number;
  uint64_t next = 0;
  uint64_t below(uint64_t n) { return random_u64({seed, number}, next++) % n; }
  template <class T>
  T& of(std::vector<T>& list) {
    return list[below(list.size())];
  }
};

// Fields of one instruction; true if something is another now.
bool change_fields(Program& p, Instruction& i, Draw& draw) {
  const auto move = [&](int& value) { return value += draw.below(2) == 0 ? 1 : -1, true; };
  const auto resize = [&](int64_t& value) {
    constexpr int64_t kBy[]{8, -8, 4096, -1, INT64_MIN / 4, INT64_MAX / 4};
    return value += kBy[draw.below(6)], true;
  };
  std::vector sizes{&i.exchanged_bytes, &i.swapped_bytes, &i.ring_bytes, &i.routed_bytes, &i.told_bytes};
  switch (draw.below(13)) {
    case 0:
      return move(i.unit);
    case 1:
      return move(i.micro);
    case 2:
      return move(i.rank);
    case 3:
      return move(i.peer);
    case 4:
      return i.op = static_cast<Opcode>(draw.below(15)), true;
    case 5:
      return i.axis = static_cast<MeshAxis>(draw.below(7)), true;
    case 6:
      return i.resource = static_cast<Resource>(draw.below(5)), true;
    case 7:
      return resize(i.workspace_bytes);
    case 8:
      return resize(i.message_bytes);
    case 9:
      return resize(*draw.of(sizes));
    case 10:
      if (i.allocates.empty()) return false;
      return resize(draw.of(i.allocates).bytes);
    case 11:
      if (i.waits.empty()) return i.waits.push_back(static_cast<int>(draw.below(p.instructions.size()))), true;
      return draw.below(2) ? i.waits.pop_back() : void(move(draw.of(i.waits))), true;
    default:
      return i.flops = -i.flops - 1, true;
  }
}

// Which buffers one instruction names.
bool change_buffers(Instruction& i, Draw& draw) {
  const auto change = [&](Buffer& b) {
    switch (draw.below(4)) {
      case 0:
        b.kind = static_cast<BufferKind>(draw.below(12));
        break;
      case 1:
        b.unit += draw.below(2) ? 1 : -1;
        break;
      case 2:
        b.micro += draw.below(2) ? 1 : -1;
        break;
      default:
        b.tier = static_cast<Tier>(draw.below(3));
    }
  };
  switch (draw.below(7)) {
    case 0:
      return !i.reads.empty() && (change(draw.of(i.reads)), true);
    case 1:
      return !i.frees.empty() && (change(draw.of(i.frees)), true);
    case 2:
      return !i.allocates.empty() && (change(draw.of(i.allocates).buffer), true);
    case 3:
      return !i.reads.empty() && (i.reads.pop_back(), true);
    case 4:
      return !i.frees.empty() && (i.frees.pop_back(), true);
    case 5:
      return !i.allocates.empty() && (i.allocates.pop_back(), true);
    default:
      return !i.reads.empty() && (i.frees.push_back(draw.of(i.reads)), true);
  }
}

bool change_list(Program& p, Draw& draw) {
  std::vector<Instruction>& list = p.instructions;
  const auto at = static_cast<std::ptrdiff_t>(draw.below(list.size()));
  switch (draw.below(4)) {
    case 0:
      return list.erase(list.begin() + at), true;
    case 1:
      return list.insert(list.begin() + at, draw.of(list)), true;
    case 2:
      return std::swap(list[static_cast<size_t>(at)], draw.of(list)), true;
    default:
      return std::swap(list[static_cast<size_t>(at)], list[(static_cast<size_t>(at) + 1) % list.size()]), true;
  }
}

void mutate(Program& p, Draw& draw) {
  for (bool changed = false; !changed;) {
    Instruction& i = draw.of(p.instructions);
    const uint64_t kind = draw.below(3);
    changed = kind == 0 ? change_fields(p, i, draw) : kind == 1 ? change_buffers(i, draw) : change_list(p, draw);
  }
}

// What a step is shared out over: stages, and on each of these replicas, which may share out experts or state, or a group that
// shares out matrices or rows.
struct Sharing {
  int stages = 1;
  PipelineSchedule schedule = PipelineSchedule::one_f_one_b;
  bool tied = false;
  int replicas = 1, experts = 1, zero = 0, tensor = 1, context = 1;
  bool ring = false;
  int each() const { return replicas * tensor * context; }  // ranks of a stage
};

// A step, and the model that it trains.
struct Step {
  Sharing over;
  Case model;
  Placement placed;
  Program program;
  std::vector<int> home;  // of each unit: its device
};

Step step_of(const Sharing& over) {
  const int64_t seq = over.tensor * over.context > 1 ? 8 : 5;  // ranks have equally many rows
  Step step{.over = over,
            .model = {"mutated", DType::f32, Multiply::exact, over.tied, 16, seq, {1, 1}},
            .placed = {},
            .program = {},
            .home = {}};
  step.model.experts = over.experts > 1;
  const ModelSpec spec = spec_of(step.model);
  const auto layers = static_cast<int>(layers_of(spec).size());
  Plan plan{.parameters = num_parameters(spec)};
  plan.job = {.batch = 2 * over.replicas, .seq = seq, .dtype = DType::f32, .gradients = DType::f32};
  plan.job.capacity_factor = over.experts;
  Mesh& mesh = plan.choice.mesh;
  mesh.data = over.replicas, mesh.expert = over.experts, mesh.tensor = over.tensor, mesh.context = over.context;
  mesh.ulysses = over.context > 1 && !over.ring;
  plan.choice.num_stages = over.stages, plan.choice.schedule = over.schedule, plan.choice.num_micro = 2;
  for (int l = 0; l < layers; ++l)
    plan.layers.push_back({.first = l,
                           .count = 1,
                           .stage = l * over.stages / layers,
                           .strategy = {.zero = over.zero, .recompute = Recompute::full}});
  for (int s = 0; s < over.stages; ++s)
    plan.stages.push_back(
        {.forward_ps = 10, .backward_ps = 10, .weight_ps = 10, .send_forward_ps = 1, .send_backward_ps = 1});
  plan.ranks.resize(static_cast<size_t>(over.stages));
  step.placed = placement_of(spec, plan, {.scratch = scratch_bytes(Multiply::exact, DType::f32)});
  step.program = lower(spec, step.placed);
  step.home.resize(spec.units.size());
  for (const PlacedLayer& l : step.placed.layers)
    for (int u = l.layer.first; u < l.layer.first + l.layer.count; ++u)
      step.home[static_cast<size_t>(u)] = device_of(step.placed.shape, l.stage);
  return step;
}

// A rank's own list, with the places in it.
Program list_of(const Program& all, int rank) {
  Program mine = all;
  mine.instructions.clear();
  std::map<int, int> place;
  for (size_t k = 0; k < all.instructions.size(); ++k) {
    if (all.instructions[k].rank != rank) continue;
    place[static_cast<int>(k)] = static_cast<int>(mine.instructions.size());
    Instruction i = all.instructions[k];
    std::vector<int> waits;
    for (const int w : i.waits)
      if (const auto at = place.find(w); at != place.end()) waits.push_back(at->second);
    i.waits = std::move(waits);
    mine.instructions.push_back(std::move(i));
  }
  return mine;
}

// Without the experts of other ranks.
void drop_others(const Shares& shares, const ModelSpec& spec, ModelWeights& w) {
  const std::vector<ParameterInfo> infos = trained_parameters(spec);
  const std::vector<Tensor*> tensors = trained_tensors(spec, w);
  for (size_t p = 0; p < infos.size(); ++p)
    if (is_expert(infos[p]) && !shares.held[p]) *tensors[p] = {};
}

// Of a stage several ranks run the same list.
void execute_stages(const Step& step, const Program& all) {
  const int each = step.over.replicas;
  with_comms(all.num_ranks * each, {.baton = true}, [&](Comm& world) {
    Bench run(step.model);
    const int device = world.rank() / each, replica = world.rank() % each, last = step.home.back();
    const std::vector<int> zero(run.spec.units.size(), 0);
    const Shares shares =
        make_mesh_shares(run.spec, run.config.rule, zero, step.home,
                         {.device = device, .replica = replica, .replicas = each, .expert_ranks = each});
    drop_others(shares, run.spec, run.weights), drop_others(shares, run.spec, run.gradients);
    run.state = make_optimizer_state(run.spec, run.weights, run.config, run.arena, shares);
    run.update.emplace(make_update_pass(run.spec, run.state, run.config, run.weights, run.gradients));
    if (run.spec.head().tied && last == device && step.home.front() != device)
      run.update->gradients[0] = dense_rows(head_of(run.gradients).projection);
    std::vector<int> of_stage;
    for (int r = 0; r < each; ++r) of_stage.push_back(device * each + r);
    Comm replicas(group_of(world.transport(), of_stage)), with_experts(group_of(world.transport(), of_stage)),
        same_experts(group_of(world.transport(), {world.rank()}));
    RoutedRows routed;
    const ExpertRanks experts{with_experts, static_cast<double>(each), routed};
    std::optional<Comm> tables;
    if (device == step.home.front() || device == last)
      tables.emplace(group_of(world.transport(), {step.home.front() * each + replica, last * each + replica}));
    begin_step(*run.update, 1, [](int64_t) { return 1e-2; });
    execute(list_of(all, device),
            {.spec = run.spec,
             .weights = run.source,
             .gradients = &run.gradients,
             .micro_batches = run.batches,
             .loss_scale = 0.125,
             .compute = {.arena = run.arena, .multiply = Multiply::exact, .experts = each > 1 ? &experts : nullptr},
             .update = &*run.update,
             .world = &world,
             .replicas = &replicas,
             .same_experts = each > 1 ? &same_experts : nullptr,
             .tables = tables ? &*tables : nullptr,
             .arrivals = arrivals_of(all, device),
             .step_targets = 1});
  });
}

// One stage, whose ranks share out state, gradients and weights.
void execute_shares(const Step& step, const Program& all) {
  with_comms(step.over.replicas, {.baton = true}, [&](Comm& world) {
    Bench run(step.model, update_config(UpdateRule::adamw), step.over.zero, world.rank(), world.size());
    execute(list_of(all, 0), input_of(run, step.model, {.costs = {}, .step_targets = 8}, world));
  });
}

// One stage, whose ranks share out matrices.
void execute_matrices(const Step& step, const Program& all) {
  with_comms(step.over.tensor, {.baton = true}, [&](Comm& world) {
    TensorPart run(step.model, update_config(UpdateRule::adamw), world, world.size());
    begin_step(*run.update, 1, [](int64_t) { return 1e-2; });
    execute(list_of(all, 0), {.spec = run.spec,
                              .weights = run.weights,
                              .gradients = &run.gradients,
                              .micro_batches = run.whole.batches,
                              .loss_scale = 0.125,
                              .compute = {.arena = run.arena, .multiply = Multiply::exact, .tensor = &*run.group},
                              .update = &*run.update,
                              .world = &world,
                              .replicas = &*run.replicas,
                              .step_targets = 1});
  });
}

// One stage, whose two ranks share out rows.
void execute_rows(const Step& step, const Program& all) {
  with_comms(2, {.baton = true}, [&](Comm& world) {
    Bench run(step.model);
    Comm rows(group_of(world.transport(), {0, 1}));
    const ContextRanks group{rows, step.over.ring};
    std::vector<MicroBatch> own;
    for (const MicroBatch& b : run.batches)
      own.push_back((step.over.ring ? ring_part : context_part)(b, world.rank(), world.size()));
    execute(list_of(all, 0), {.spec = run.spec,
                              .weights = run.source,
                              .gradients = &run.gradients,
                              .micro_batches = own,
                              .loss_scale = 0.125,
                              .compute = {.arena = run.arena, .multiply = Multiply::exact, .context = &group},
                              .update = &*run.update,
                              .world = &world,
                              .step_targets = 1});
  });
}

void execute_step(const Step& step, const Program& all) {
  const Sharing& over = step.over;
  if (over.tensor > 1) return execute_matrices(step, all);
  if (over.context > 1) return execute_rows(step, all);
  if (over.zero > 0) return execute_shares(step, all);
  if (all.num_ranks * over.each() > 1) return execute_stages(step, all);
  Bench(step.model).execute_with(all, Multiply::exact, 0.125);
}

struct Tally {
  int found = 0, ended = 0, refused = 0;
};

void run_mutated(const Step& step, const Program& mutated, Tally& tally) {
  if (!validate(mutated).empty()) return void(++tally.found);
  try {
    execute_step(step, mutated);
    ++tally.ended;
  } catch (const std::exception&) { ++tally.refused; }
}

const Sharing kSharings[] = {
    {.tied = true},
    {.stages = 2},
    {.stages = 2, .schedule = PipelineSchedule::zb_h1},
    {.stages = 2, .schedule = PipelineSchedule::gpipe, .tied = true},
    {.replicas = 2, .experts = 2},
    {.replicas = 2, .zero = 1},
    {.replicas = 2, .zero = 3},
    {.tied = true, .replicas = 2, .zero = 3},
    {.tensor = 2},
    {.context = 2},
    {.context = 2, .ring = true},
};

void run_all(uint64_t count) {
  const char* given = std::getenv("TERN_TEST_SEED");
  const uint64_t seed = given ? std::strtoull(given, nullptr, 10) : 1;
  std::vector<Step> steps;
  for (const Sharing& over : kSharings) {
    steps.push_back(step_of(over));
    ASSERT_EQ(validate(steps.back().program), std::vector<std::string>{});
    execute_step(steps.back(), steps.back().program);
  }
  Tally tally;
  for (uint64_t number = 0; number < count; ++number) {
    SCOPED_TRACE(testing::Message() << "seed " << seed << ", number " << number);
    const Step& step = steps[number % steps.size()];
    Draw draw{seed, number};
    Program mutated = step.program;
    mutate(mutated, draw);
    run_mutated(step, mutated, tally);
  }
  std::printf("%llu mutated: %d found by the validator, %d ran to the end, %d refused as they ran\n",
              static_cast<unsigned long long>(count), tally.found, tally.ended, tally.refused);
  EXPECT_EQ(static_cast<uint64_t>(tally.found + tally.ended + tally.refused), count);
  EXPECT_GT(tally.found, tally.ended + tally.refused);
}

TEST(MutatedPrograms, AreFoundByTheValidatorOrEnd) { run_all(500); }
TEST(MutatedProgramsSlow, TenThousandAreFoundByTheValidatorOrEnd) { run_all(10'000); }

}  // namespace
}  // namespace tern
