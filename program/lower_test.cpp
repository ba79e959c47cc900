#include "program/lower.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "program/checksum.h"
#include "program/faults_testing.h"
#include "program/generate.h"
#include "program/placement_testing.h"
#include "program/plan_program.h"
#include "program/simulate.h"
#include "program/validate.h"
#include "spec/attended_pairs.h"
#include "spec/recompute.h"

namespace tern {
namespace {

template <class Check>
void for_random(const CaseParts& parts, int each, uint64_t seed, Check check) {
  for (const PipelineSchedule schedule : kPipelineSchedules)
    for (int k = 0; k < each; ++k) {
      const uint64_t own = seed * 1000 + static_cast<uint64_t>(k);
      const PlacedCase c = random_placed(schedule, parts, own);
      SCOPED_TRACE(to_string(c.plan.choice) + " seed " + std::to_string(own));
      const Program p = lower(c.spec, c.placement);
      ASSERT_EQ(first_fault(p), "");
      check(c, p);
      if (::testing::Test::HasFailure()) return;
    }
}

// Every kind of ZeRO, recomputation, uneven stages, tensor and data axes, tied tables.
TEST(Lower, UnitByUnitEqualsTheStageModelToThePicosecond) {
  int joins_free = 0, all = 0;
  for_random({}, 25, 1, [&](const PlacedCase& c, const Program& p) {
    const int64_t stages = c.stage_makespan(), units = simulate(p, c.prices_of(p)).makespan;
    const Program free = without_joins(p);
    const int64_t freely = simulate(free, c.prices_of(free)).makespan;
    // Several chunks on a device: the gradient link works off more than the stages' formula credits.
    if (c.plan.choice.chunks_per_stage == 1)
      ASSERT_EQ(freely, stages);
    else
      ASSERT_LE(freely, stages);
    ASSERT_GE(units, freely);
    joins_free += units == freely, ++all;
  });
  EXPECT_GT(joins_free, all / 2);
}

// Its backward pass is empty where weights' gradients come later, and those read no weights.
TEST(Lower, InASplitBackwardTheEmbeddingIsNotGathered) {
  int gathers = 0, splits = 0;
  for_random({}, 15, 8, [&](const PlacedCase& c, const Program& p) {
    std::map<int, int> of_micro;  // GATHERs of the embedding's dense parameters
    for (const Instruction& i : p.instructions)
      if (i.op == Opcode::gather && i.unit == 0 && i.micro >= 0) ++of_micro[i.micro];
    const bool split = splits_backward(c.plan.choice.schedule);
    for (const auto& [micro, number] : of_micro) ASSERT_EQ(number, split ? 1 : 2) << micro;
    gathers += !of_micro.empty(), splits += !of_micro.empty() && split;
  });
  EXPECT_GT(splits, 0);
  EXPECT_GT(gathers, splits);
}

TEST(Lower, WithoutReplicasChunksAreEqualToo) {
  for_random({.replicas = false, .late_tables = false}, 15, 2, [&](const PlacedCase& c, const Program& p) {
    const Program free = without_joins(p);
    ASSERT_EQ(simulate(free, c.prices_of(free)).makespan, c.stage_makespan());
    ASSERT_GE(simulate(p, c.prices_of(p)).makespan, c.stage_makespan());
  });
}

void expect_within_stage_model(const PlacedCase& c, const Program& p) {
  const Simulation s = simulate(p);
  const std::vector<TierBytes> most = c.stage_peaks();
  const StageInstance stages = stage_instance(c.placement, c.prices);
  const std::vector<TierBytes> persistent = stage_bytes(stages.instance, stages.assignment).persistent;
  for (size_t rank = 0; rank < most.size(); ++rank) {
    ASSERT_EQ(s.at_end[rank], persistent[rank]) << rank;
    ASSERT_LE(s.peak[rank][0], most[rank][0]) << rank;
    ASSERT_EQ(s.peak[rank][1], most[rank][1]) << rank;  // states alone: nothing moves there
  }
}
TEST(Lower, HoldsNoMoreThanTheStageModel) {
  for_random({}, 50, 3, expect_within_stage_model);
  for_random({.experts = true}, 50, 6, expect_within_stage_model);
}

TEST(Lower, WithActivationsOffTheDeviceIsSoundAndCountsThemThere) {
  int stored = 0;
  for_random({.offload = true}, 20, 4, [&](const PlacedCase& c, const Program& p) {
    const Simulation s = simulate(p, c.prices_of(p));
    std::map<std::pair<int, int>, int64_t> out;
    for (const Instruction& i : p.instructions) {
      if (i.op == Opcode::store) out[{i.unit, i.micro}] = i.message_bytes, ++stored;
      if (i.op == Opcode::load) EXPECT_EQ(i.message_bytes, (out[{i.unit, i.micro}])) << to_string(i);
    }
    const std::vector<TierBytes> most = c.stage_peaks();
    for (size_t rank = 0; rank < most.size(); ++rank)
      for (size_t tier = 1; tier < kTiers; ++tier) ASSERT_LE(s.peak[rank][tier], most[rank][tier]) << rank;
  });
  EXPECT_GT(stored, 1000);
}

std::string text_of(const Program& p) {
  std::string text;
  for (const Instruction& i : p.instructions) text += to_string(i) + "\n";
  return text;
}

TEST(Lower, WritesTheListOfARank) {
  const PlacedCase c = small_placed();
  const std::string first = text_of(lower(c.spec, c.placement, 0)), second = text_of(lower(c.spec, c.placement, 1));
  EXPECT_EQ(second.substr(0, second.find("RECV output(unit 2, micro 1)")),
            "RECV output(unit 2, micro 0) from rank 0\nFORWARD unit 3 micro 0\nFORWARD unit 4 micro 0\n"
            "FORWARD unit 5 micro 0\nBACKWARD_INPUT unit 5 micro 0\nBACKWARD_WEIGHT unit 5 micro 0\n"
            "RECOMPUTE unit 4 micro 0\nBACKWARD_INPUT unit 4 micro 0\nBACKWARD_WEIGHT unit 4 micro 0\n"
            "RECOMPUTE unit 3 micro 0\nBACKWARD_INPUT unit 3 micro 0\nBACKWARD_WEIGHT unit 3 micro 0\n"
            "SEND gradient(unit 2, micro 0) to rank 0\n");
  EXPECT_NE(first.find("BACKWARD_WEIGHT unit 0 micro 1\nREDUCE unit 0\nJOIN output(unit 2, micro 0)\n"
                       "JOIN output(unit 2, micro 1)\nNORM\nUPDATE unit 0\nUPDATE unit 1\nUPDATE unit 2\n"),
            std::string::npos)
      << first;
}

TEST(Lower, MessagesAreTheBoundaryTensorAndCollectivesNameTheirAxis) {
  const PlacedCase zero3 = small_placed(3);
  const Program p = lower(zero3.spec, zero3.placement);
  ASSERT_EQ(first_fault(p), "");
  int gathers = 0, messages = 0;
  const auto elements = [&](int unit) {
    return unit_cost(zero3.spec.units[unit], zero3.placement.query(unit, 0)).parameters;
  };
  for (const Instruction& i : p.instructions) {
    if (i.op == Opcode::send || i.op == Opcode::recv) {
      EXPECT_EQ(i.message_bytes, 16 * 16 * 4);
      ++messages;
    }
    if (i.op != Opcode::gather) continue;
    ++gathers;
    EXPECT_EQ(i.axis, MeshAxis::replicas);
    if (i.unit == 3) EXPECT_EQ(i.message_bytes, 4 * (elements(3) + elements(4)));
  }
  EXPECT_EQ(messages, 2 * 2 * 2);  // there and its arrival; micro-batches; output and gradient
  EXPECT_EQ(gathers, 4 * 2 * 2);   // layers, micro-batches, passes
  EXPECT_EQ(p.devices_per_rank, 2);
}

// Without stages a layer's weights are whole from its GATHER to its last reader, a tied head's with the table.
TEST(Lower, ZeroThreeGathersWhatALayerReadsUntilItsLastReader) {
  for (const bool tied : {false, true}) {
    Plan plan{.job = {.batch = 4, .seq = 16, .dtype = DType::f32}};
    plan.choice = {.mesh = {.data = 2}, .num_micro = 2};
    plan.layers = {{.first = 0, .count = 4, .strategy = {.zero = 3}}};
    const PlacedCase c(small_spec(2, true, tied), plan);
    const Program p = lower(c.spec, c.placement, 0);
    EXPECT_EQ(validate(p), std::vector<std::string>{});
    const int head = p.num_units - 1;
    for (size_t k = 0; k < p.instructions.size(); ++k) {
      const Instruction& i = p.instructions[k];
      if (i.op != Opcode::gather) continue;
      if (i.unit == head) EXPECT_EQ(i.message_bytes, 4 * (16 + 40 * 16)) << tied;
      const auto end = std::find_if(
          p.instructions.begin() + static_cast<ptrdiff_t>(k), p.instructions.end(),
          [&](const Instruction& j) { return std::ranges::find(j.frees, i.allocates[0].buffer) != j.frees.end(); });
      ASSERT_NE(end, p.instructions.end());
      const bool forward = p.instructions[k + 1].op == Opcode::forward;
      EXPECT_EQ(end->op, forward ? Opcode::forward : Opcode::backward_weight) << to_string(*end);
      EXPECT_EQ(end->unit, forward && i.unit > 0 && i.unit < head ? i.unit + 1 : i.unit);
    }
  }
}

TEST(Lower, OneDeviceIsTheTrainersProgramByItsChecksum) {
  Plan plan{.job = {.batch = 6, .seq = 16, .dtype = DType::f32}};
  plan.choice = {.micro_batch = 2, .num_micro = 3};
  plan.layers = {{.first = 0, .count = 4, .stage = 0, .strategy = {.recompute = Recompute::attention}}};
  const PlacedCase c(small_spec(2, true, true), plan);
  const CostQuery query{
      .tokens = 32, .attended_pairs = 2 * attended_pairs(16, 0, 0), .dtype = DType::f32, .scratch = {}};
  const Program trainers = training_program(c.spec, std::vector(3, query), Recompute::attention);
  const Program planned = lower(c.spec, c.plan, 0);
  EXPECT_EQ(validate(planned), std::vector<std::string>{});
  // Pairs are asked of each unit in a plan, once for all in the trainer's queries: units without attention differ in
  // nothing that they cost.
  EXPECT_EQ(checksum(planned), checksum(trainers));
  EXPECT_EQ(checksum(planned), checksum(lower(c.spec, c.placement)));
}

TEST(Lower, ALayersOwnRecomputationIsItsUnits) {
  Plan plan{.job = {.batch = 1, .seq = 16, .dtype = DType::f32}};
  plan.layers = {{.first = 0, .count = 2, .stage = 0, .strategy = {.recompute = Recompute::full}},
                 {.first = 2, .count = 2, .stage = 0, .strategy = {}}};
  const PlacedCase c(small_spec(), plan);
  std::vector<int> remade;
  for (const Instruction& i : lower(c.spec, c.plan, 0).instructions)
    if (i.op == Opcode::recompute) remade.push_back(i.unit);
  EXPECT_EQ(remade, (std::vector<int>{2, 1}));
}

TEST(Lower, RefusesAnotherModelsPlanAndAnOrderItDoesNotKnow) {
  const auto refusal = [](auto call) {
    try {
      call();
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::usage);
      return std::string(e.what());
    }
    return std::string("taken");
  };
  const PlacedCase c = small_placed();
  EXPECT_NE(refusal([&] { lower(small_spec(3), c.plan, 0); }).find("the plan is of another model"), std::string::npos);
  EXPECT_NE(refusal([&] { lower(small_spec(2, false), c.plan, 0); }).find("another model"), std::string::npos);
  Plan timed = c.plan;
  timed.choice.schedule = PipelineSchedule::zb_h1;
  EXPECT_NE(refusal([&] { lower(c.spec, timed, 0); }).find("the order of zb-h1 follows the times"), std::string::npos);
}

// A plan that says its stages' times lowers whatever its schedule: the order is theirs.
TEST(Lower, AnOrderThatFollowsTheTimesIsThatOfThePlansStages) {
  for (const PipelineSchedule schedule : {PipelineSchedule::zb_h1, PipelineSchedule::zb_h2})
    for (uint64_t seed = 1; seed <= 20; ++seed) {
      PlacedCase c = random_placed(schedule, {}, seed);
      c.say_stages();
      EXPECT_EQ(checksum(lower(c.spec, placement_of(c.spec, c.plan))), checksum(lower(c.spec, c.placement))) << seed;
    }
}

// The list that `tern plan` prices is the list with the cost model's times: on one device to the picosecond.
TEST(Lower, APlansProgramIsPricedAsItsInstructionsAre) {
  int alone = 0;
  for_random({}, 12, 5, [&](const PlacedCase& made, const Program& p) {
    PlacedCase c = made;
    c.say_stages();
    const std::optional<PlannedProgram> priced = program_of_plan(c.spec, c.cluster, c.plan);
    ASSERT_TRUE(priced);
    ASSERT_EQ(priced->checksum, checksum(p));
    ASSERT_EQ(priced->instructions, std::ssize(p.instructions));
    ASSERT_EQ(priced->step_ps, simulate(p, made.prices_of(p)).makespan);
    if (c.plan.choice.devices() > 1) return;
    ASSERT_EQ(priced->step_ps, made.stage_makespan());
    ++alone;
  });
  EXPECT_GT(alone, 0);
}

// As the search prices them: a tied table's sum may leave the node where the cluster has nodes of another type.
TEST(Lower, APlansProgramOnUnlikeNodesHasTheSearchsCosts) {
  int dearer = 0;
  for_random({}, 12, 5, [&](const PlacedCase& made, const Program& p) {
    PlacedCase c = made;
    c.say_stages();
    NodeType other = c.cluster.nodes[0];
    other.name = "other";
    c.cluster.nodes.push_back(other);
    c.cluster.groups.push_back({1, 1});
    c.cluster.network[0].latency_ps = 1'000'000'000'000;  // a second, so that the sum ends last
    const Machine machine = machine_of(c.cluster, 0);
    const int64_t priced = program_of_plan(c.spec, c.cluster, c.plan)->step_ps;
    const LayerCosts costs(c.spec, c.plan.job, machine, c.plan.choice.mesh, c.plan.choice.micro_batch, true);
    PlacementCosts prices = c.prices;
    std::ranges::fill(prices.layers, &costs);
    ASSERT_EQ(priced, simulate(p, instruction_times(p, c.spec, c.placement, prices)).makespan);
    dearer += priced > simulate(p, made.prices_of(p)).makespan;
  });
  EXPECT_GT(dearer, 0);
}

TEST(Lower, AProgramHasNoMoreInstructionsThanItsPlanLetsCount) {
  for (const bool offload : {false, true})
    for_random({.offload = offload, .experts = !offload}, 25, 5, [&](const PlacedCase& c, const Program& p) {
      ASSERT_LE(std::ssize(p.instructions), most_instructions(c.spec, c.plan));
      // No idle bound, beside what every step is given once whether its plan needs it or not.
      if (c.plan.choice.num_micro >= 4) ASSERT_GE(3 * std::ssize(p.instructions), most_instructions(c.spec, c.plan));
    });
  // Experts that the ranks of a tensor group have whole: the group sums their gradients, though no rank is a replica.
  Plan p{.job = {.batch = 8, .seq = 16, .dtype = DType::f32, .capacity_factor = 8}};
  p.choice = {.mesh = {.tensor = 2}, .micro_batch = 1, .num_micro = 8};
  ModelSpec spec = small_spec(32);
  give_experts(spec);
  p.layers = {{.first = 0, .count = 34, .stage = 0, .strategy = {.zero = 3, .recompute = Recompute::full}}};
  p.parameters = num_parameters(spec);
  EXPECT_LE(std::ssize(lower(spec, placement_of(spec, p)).instructions), most_instructions(spec, p));
}

TEST(Lower, APlanIsNotPricedByItsProgramWhereThatIsTooLong) {
  PlacedCase c = random_placed(PipelineSchedule::one_f_one_b, {}, 1);
  c.say_stages();
  c.plan.choice.num_micro = kMostPlannedInstructions;
  EXPECT_FALSE(program_of_plan(c.spec, c.cluster, c.plan));
  c.plan.choice.num_micro = 1, c.plan.ranks.at(0).node = "elsewhere";
  EXPECT_THROW(program_of_plan(c.spec, c.cluster, c.plan), Error);
}

TEST(Checksum, ChangesWithEveryField) {
  const Program p = small_program();
  const auto changed = [&](auto change) {
    Program q = p;
    change(q);
    return checksum(q) != checksum(p);
  };
  const auto at = [](Program& q) -> Instruction& { return q.instructions[5]; };
  EXPECT_EQ(checksum(p), checksum(Program(p)));
  EXPECT_TRUE(changed([&](Program& q) { at(q).op = Opcode::join; }));
  EXPECT_TRUE(changed([&](Program& q) { ++at(q).rank; }));
  EXPECT_TRUE(changed([&](Program& q) { ++at(q).unit; }));
  EXPECT_TRUE(changed([&](Program& q) { ++at(q).micro; }));
  EXPECT_TRUE(changed([&](Program& q) { at(q).resource = Resource::disk; }));
  EXPECT_TRUE(changed([&](Program& q) { at(q).reads.push_back({BufferKind::left, 1, 1}); }));
  EXPECT_TRUE(changed([&](Program& q) { at(q).frees.push_back({BufferKind::left, 1, 1}); }));
  EXPECT_TRUE(changed([&](Program& q) { at(q).allocates.push_back({{BufferKind::left, 1, 1}, 4}); }));
  EXPECT_TRUE(changed([&](Program& q) { ++at(q).workspace_bytes; }));
  EXPECT_TRUE(changed([&](Program& q) { ++at(q).flops; }));
  EXPECT_TRUE(changed([&](Program& q) { ++at(q).bytes_moved; }));
  EXPECT_TRUE(changed([&](Program& q) { ++at(q).stage; }));
  EXPECT_TRUE(changed([&](Program& q) { ++at(q).peer; }));
  EXPECT_TRUE(changed([&](Program& q) { at(q).axis = MeshAxis::all; }));
  EXPECT_TRUE(changed([&](Program& q) { ++at(q).message_bytes; }));
  EXPECT_TRUE(changed([&](Program& q) { at(q).waits.push_back(0); }));
  std::set<uint32_t> sums;  // as many bytes, each time of another kind
  for (int64_t Instruction::*bytes : {&Instruction::exchanged_bytes, &Instruction::swapped_bytes,
                                      &Instruction::ring_bytes, &Instruction::routed_bytes, &Instruction::told_bytes}) {
    Program q = p;
    at(q).*bytes = 64;
    sums.insert(checksum(q));
    EXPECT_NE(checksum(q), checksum(p));
  }
  EXPECT_EQ(sums.size(), 5u);
  EXPECT_TRUE(changed([&](Program& q) { ++q.num_micro; }));
  EXPECT_TRUE(changed([&](Program& q) { ++q.num_units; }));
  EXPECT_TRUE(changed([&](Program& q) { ++q.num_ranks; }));
  EXPECT_TRUE(changed([&](Program& q) { ++q.devices_per_rank; }));
  EXPECT_TRUE(changed([&](Program& q) { ++q.resident[1][0].bytes; }));
  EXPECT_TRUE(changed([&](Program& q) { q.resident[1][0].buffer.tier = Tier::disk; }));
  EXPECT_TRUE(changed([&](Program& q) { std::swap(q.instructions[5], q.instructions[6]); }));
}

TEST(Lower, TracesEveryRankOnItsOwnClocks) {
  const PlacedCase c = small_placed();
  const Program p = lower(c.spec, c.placement);
  const Simulation s = simulate(p, c.prices_of(p));
  const Json json = parse_json(chrome_trace(trace_of(p, s), "predicted"), "trace");
  std::map<std::pair<int, int>, std::string> names;
  size_t events = 0;
  for (const Json& e : json["traceEvents"]) {
    if (e["ph"] == "M" && e["name"] == "thread_name") names[{e["pid"], e["tid"]}] = e["args"]["name"];
    if (e["ph"] == "X") ++events;
  }
  EXPECT_EQ(events, p.instructions.size());
  const auto named = [&](const std::string& name) {
    return std::count_if(names.begin(), names.end(), [&](const auto& n) { return n.second == name; });
  };
  for (const char* name : {"compute", "gradient link"}) EXPECT_EQ(named(name), 2) << name;
  for (const char* name : {"link to rank 0", "link from rank 0", "link to rank 1", "link from rank 1"})
    EXPECT_EQ(named(name), 1) << name;
}

}  // namespace
}  // namespace tern
