#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "program/faults_testing.h"
#include "program/generate.h"
#include "program/instruction_times.h"
#include "program/link_bytes.h"
#include "program/placement_testing.h"
#include "program/simulate.h"
#include "program/trace.h"
#include "program/validate.h"
#include "spec/attended_pairs.h"
#include "spec/recompute.h"

namespace tern {
namespace {

std::vector<CostQuery> micros(int n, int64_t tokens = 8, DType dtype = DType::f32) {
  return std::vector<CostQuery>(
      n, {.tokens = tokens, .attended_pairs = attended_pairs(tokens, 0, 0), .dtype = dtype, .scratch = {}});
}

Program sample(Recompute r = Recompute::full) { return training_program(small_spec(), micros(2), r); }

size_t find(const Program& p, Opcode op, int unit, int micro) {
  for (size_t i = 0; i < p.instructions.size(); ++i)
    if (p.instructions[i].op == op && p.instructions[i].unit == unit && p.instructions[i].micro == micro) return i;
  ADD_FAILURE() << "no " << name_of(op) << " " << unit << " " << micro;
  return 0;
}

template <class T, class Match>
void erase_one(std::vector<T>& list, Match match) {
  const auto it = std::find_if(list.begin(), list.end(), match);
  ASSERT_NE(it, list.end()) << "the planted fault found nothing to break";
  list.erase(it);
}

TEST(TrainingProgram, IsValidForEveryModeAndCount) {
  for (const Recompute r : {Recompute::none, Recompute::attention, Recompute::full})
    for (const int n : {1, 2, 5})
      for (const int64_t layers : {1, 3})
        EXPECT_EQ(validate(training_program(small_spec(layers), micros(n), r)), std::vector<std::string>{});
}

TEST(TrainingProgram, RecomputesTheUnitsAskedFor) {
  const auto count = [](Recompute r) {
    const Program p = sample(r);
    return std::count_if(p.instructions.begin(), p.instructions.end(),
                         [](const Instruction& i) { return i.op == Opcode::recompute; });
  };
  EXPECT_EQ(count(Recompute::none), 0);
  EXPECT_EQ(count(Recompute::attention), 2 * 2);  // layers × micro-batches
  EXPECT_EQ(count(Recompute::full), 4 * 2);
}

TEST(ForwardProgram, IsValidAndHoldsTwoOutputsAtMost) {
  const Program p = forward_program(small_spec(3), micros(2));
  EXPECT_EQ(validate(p, ProgramKind::forward), std::vector<std::string>{});
  const Simulation s = simulate(p);
  for (size_t i = 0; i < p.instructions.size(); ++i)
    EXPECT_LE(s.replay[i].before, 8 * 16 * 4) << to_string(p.instructions[i]);
}

TEST(Validate, FindsAReadOfWhatIsGone) {
  Program p = sample();
  p.instructions[find(p, Opcode::forward, 2, 0)].frees.push_back({BufferKind::output, 1, 0});
  expect_fault(p, "reads output(unit 1, micro 0), which is not alive");
}
TEST(Validate, FindsALeak) {
  Program p = sample();
  erase_one(p.instructions[find(p, Opcode::backward_weight, 3, 1)].frees,
            [](const Buffer& b) { return b.kind == BufferKind::left; });
  expect_fault(p, "left(unit 3, micro 1) is still alive at the end");
}
TEST(Validate, FindsADoubleFree) {
  Program p = sample();
  p.instructions[find(p, Opcode::backward_weight, 0, 0)].frees.push_back({BufferKind::saved, 5, 0});
  expect_fault(p, "frees saved(unit 5, micro 0), which is not alive");
}
TEST(Validate, FindsABirthWhileAlive) {
  Program p = sample(Recompute::none);
  p.instructions[find(p, Opcode::forward, 3, 0)].allocates.push_back({{BufferKind::output, 1, 0}, 4});
  expect_fault(p, "allocates output(unit 1, micro 0), which is alive");
}
TEST(Validate, FindsASecondBirth) {
  Program p = sample();
  Instruction& i = p.instructions[find(p, Opcode::backward_weight, 0, 0)];
  i.allocates.push_back({{BufferKind::saved, 5, 0}, 4}), i.frees.push_back({BufferKind::saved, 5, 0});
  expect_fault(p, "allocates saved(unit 5, micro 0) a second time");
}
TEST(Validate, FindsADroppedRead) {
  Program p = sample();
  erase_one(p.instructions[find(p, Opcode::backward_input, 2, 0)].reads,
            [](const Buffer& b) { return b.kind == BufferKind::gradient; });
  expect_fault(p, "does not read gradient(unit 2, micro 0)");
}
TEST(Validate, FindsAMissingInstruction) {
  Program p = sample(Recompute::none);
  p.instructions.erase(p.instructions.begin() + find(p, Opcode::backward_weight, 4, 1));
  expect_fault(p, "no BACKWARD_WEIGHT unit 4 micro 1");
}
TEST(Validate, FindsASecondRun) {
  Program p = sample(Recompute::none);
  const auto at = p.instructions.begin() + find(p, Opcode::backward_weight, 0, 0);
  p.instructions.insert(at, *at);
  expect_fault(p, "a second time; first at");
}
TEST(Validate, FindsWeightGradientsOutOfMicroOrder) {
  Program p = sample(Recompute::none);
  for (Instruction& i : p.instructions) {  // the second micro-batch first: sound alone, but other bits
    if (i.micro >= 0) i.micro = 1 - i.micro;
    for (auto& b : i.reads) b.micro = 1 - b.micro;
    for (auto& b : i.allocates) b.buffer.micro = 1 - b.buffer.micro;
    for (auto& b : i.frees) b.micro = 1 - b.micro;
  }
  expect_fault(p, "comes before BACKWARD_WEIGHT unit 5 micro 0");
}
TEST(Validate, FindsSwappedOrder) {
  Program p = sample(Recompute::none);
  std::swap(p.instructions[find(p, Opcode::backward_input, 3, 0)],
            p.instructions[find(p, Opcode::backward_input, 2, 0)]);
  expect_fault(p, "comes before BACKWARD_INPUT unit 3 micro 0");
}
TEST(Validate, FindsTheHeadsForwardsOutOfMicroOrder) {
  Program p = sample(Recompute::none);
  std::swap(p.instructions[find(p, Opcode::forward, 5, 0)], p.instructions[find(p, Opcode::forward, 5, 1)]);
  expect_fault(p, "FORWARD unit 5 micro 1: comes before FORWARD unit 5 micro 0");
}
TEST(Validate, FindsAnEndOfStepOutOfOrderOrNotThere) {
  const auto swapped = [](Opcode a, int unit_a, Opcode b, int unit_b, int micro_b) {
    Program p = training_program(small_spec(2, true, true), micros(2), Recompute::none);
    EXPECT_EQ(validate(p), std::vector<std::string>{});
    std::swap(p.instructions[find(p, a, unit_a, -1)], p.instructions[find(p, b, unit_b, micro_b)]);
    return p;
  };
  expect_fault(swapped(Opcode::update, 3, Opcode::norm, -1, -1), "UPDATE unit 3: comes before NORM");
  expect_fault(swapped(Opcode::reduce, 0, Opcode::norm, -1, -1), "REDUCE unit 0: comes after NORM");
  expect_fault(swapped(Opcode::reduce, 0, Opcode::backward_weight, 0, 1),
               "comes before BACKWARD_WEIGHT unit 0 micro 1");
  expect_fault(swapped(Opcode::norm, -1, Opcode::backward_weight, 4, 1), "comes before BACKWARD_WEIGHT unit 4 micro 1");
  Program p = sample();
  p.instructions.pop_back();
  expect_fault(p, "no UPDATE unit 5");
  p.instructions.push_back(p.instructions.back());
  expect_fault(p, "UPDATE unit 4: a second time");
  p = sample();
  p.instructions.erase(p.instructions.begin() + find(p, Opcode::norm, -1, -1));
  expect_fault(p, "no NORM");
}
TEST(TrainingProgram, JoinsATiedTableOnceAndUpdatesEachUnitOnce) {
  const auto count = [](const Program& p, Opcode op) {
    return std::count_if(p.instructions.begin(), p.instructions.end(),
                         [&](const Instruction& i) { return i.op == op; });
  };
  for (const bool tied : {false, true})
    for (const DType dtype : {DType::bf16, DType::f32, DType::f64}) {
      const ModelSpec spec = small_spec(2, true, tied);
      const Program p = training_program(spec, micros(3, 8, dtype), Recompute::none);
      const int64_t wide = dtype == DType::f64 ? 8 : 4;
      EXPECT_EQ(count(p, Opcode::reduce), tied);
      EXPECT_EQ(count(p, Opcode::norm), 1);
      EXPECT_EQ(count(p, Opcode::update), 6);
      EXPECT_EQ(p.instructions[find(p, Opcode::norm, -1, -1)].bytes_moved, wide * num_parameters(spec));
      if (tied) { EXPECT_EQ(p.instructions[find(p, Opcode::reduce, 0, -1)].bytes_moved, wide * 4 * 40 * 16); }
      int64_t flops = 0;
      for (const Instruction& i : p.instructions) flops += i.op == Opcode::update ? i.flops : 0;
      EXPECT_EQ(flops, 12 * num_parameters(spec));
    }
}
TEST(Validate, FindsFieldsOutOfRange) {
  Program p = sample();
  p.instructions[3].unit = 6;
  expect_fault(p, "unit 6 of 6");
  p = sample();
  p.instructions[3].allocates[0].bytes = -1;
  expect_fault(p, "has -1 bytes");
}
TEST(Validate, FindsARecomputeTooLate) {
  Program p = sample();
  std::swap(p.instructions[find(p, Opcode::recompute, 3, 0)], p.instructions[find(p, Opcode::backward_input, 3, 0)]);
  expect_fault(p, "comes after its BACKWARD_INPUT");
}

// By hand, one layer, one micro-batch, unit costs planted: the closed form of the peak.
TEST(Simulate, CountsAHandMadeProgram) {
  Program p{.num_ranks = 1, .num_units = 2, .num_micro = 1, .instructions = {}};
  const Buffer y{BufferKind::output, 0, 0}, kept{BufferKind::saved, 1, 0}, dy{BufferKind::gradient, 0, 0},
      left{BufferKind::left, 1, 0};
  p.instructions.push_back({.op = Opcode::forward, .unit = 0, .allocates = {{y, 100}}, .workspace_bytes = 7});
  p.instructions.push_back(
      {.op = Opcode::forward, .unit = 1, .reads = {y}, .allocates = {{kept, 30}}, .workspace_bytes = 500});
  p.instructions.push_back({.op = Opcode::backward_input,
                            .unit = 1,
                            .reads = {y, kept},
                            .allocates = {{dy, 100}, {left, 3}},
                            .workspace_bytes = 11});
  p.instructions.push_back({.op = Opcode::backward_weight,
                            .unit = 1,
                            .reads = {y, kept, left},
                            .frees = {y, kept, left},
                            .workspace_bytes = 2});
  p.instructions.push_back(
      {.op = Opcode::backward_weight, .unit = 0, .reads = {dy}, .frees = {dy}, .workspace_bytes = 1000});
  p.instructions.push_back({.op = Opcode::norm, .unit = -1, .micro = -1});
  for (const int unit : {0, 1}) p.instructions.push_back({.op = Opcode::update, .unit = unit, .micro = -1});
  ASSERT_EQ(validate(p), std::vector<std::string>{});
  const Simulation s = simulate(p);
  EXPECT_EQ(s.ranks[0].peak_buffers, 233);
  EXPECT_EQ(s.ranks[0].peak_workspace, 1000);
  EXPECT_EQ(s.ranks[0].peak_bytes, 1100);  // the last weight gradient: dy and its temporaries
  EXPECT_EQ(s.ranks[0].buffers_at_peak, 100);
  EXPECT_EQ(s.ranks[0].peak_place, 4u);
  EXPECT_EQ(s.replay[3].before, 233);
  EXPECT_EQ(s.replay[3].after, 100);
  EXPECT_EQ(s.replay.back().after, 0);
}

TEST(Simulate, MicroBatchesInTurnDoNotRaiseThePeakAndRecomputationLowersIt) {
  const auto peak = [](Recompute r, int n) {
    return simulate(training_program(small_spec(4), micros(n, 64), r)).ranks[0].peak_buffers;
  };
  EXPECT_EQ(peak(Recompute::none, 1), peak(Recompute::none, 5));
  EXPECT_LT(peak(Recompute::attention, 1), peak(Recompute::none, 1));
  EXPECT_LT(peak(Recompute::full, 1), peak(Recompute::attention, 1));
}

// Without recomputation the most buffers are alive when the head's backward begins or soon after: everything the
// forward kept.
TEST(Simulate, PeakContainsEverythingTheForwardKeeps) {
  const ModelSpec spec = small_spec(2);
  const CostQuery q = micros(1, 64)[0];
  int64_t kept = 0;
  for (size_t u = 0; u < spec.units.size(); ++u) {
    const UnitCost c = unit_cost(spec.units[u], q);
    kept += c.saved_bytes + (u + 1 < spec.units.size() ? c.output_bytes : 0);
  }
  const Program p = training_program(spec, std::vector{q}, Recompute::none);
  const Simulation s = simulate(p);
  EXPECT_EQ(s.replay[find(p, Opcode::backward_input, 5, 0)].before, kept);
  EXPECT_GE(s.ranks[0].peak_buffers, kept);
}

TEST(LinkBytes, OfAnEvenRouterAreTheProgramsAndOfAnotherThoseOfItsRows) {
  constexpr int64_t kRow = 64, kRows = 12;
  const Instruction i{.routed_bytes = 2 * kRows * kRow, .told_bytes = 32};  // to four ranks and back
  EXPECT_EQ(routed_link_bytes(i, 4, {kRows, 9, 9}).sent, (i.routed_bytes + i.told_bytes) / 4 * 3);
  EXPECT_EQ(routed_link_bytes(i, 4, {kRows, 12, 0}).sent, 12 * kRow + 24);
  EXPECT_EQ(routed_link_bytes(i, 4, {kRows, 0, 36}).received, 36 * kRow + 24);
  EXPECT_EQ(routed_link_bytes({}, 4, {}), LinkBytes{});
}

TEST(Trace, IsJsonWithOneEventPerInstruction) {
  const Program p = sample();
  const Simulation s = simulate(p, instruction_times(p, Rates{}));
  const std::vector<TraceEvent> trace = trace_of(p, s);
  const Json json = parse_json(chrome_trace(trace, "predicted"), "trace");
  size_t complete = 0;
  double end = 0;
  for (const Json& e : json["traceEvents"])
    if (e["ph"] == "X") {
      ++complete;
      EXPECT_GE(e["ts"].get<double>() + 2e-3, end);  // one rank: no overlap, up to the rounding of the text
      end = e["ts"].get<double>() + e["dur"].get<double>();
    }
  EXPECT_EQ(complete, p.instructions.size());
  EXPECT_NEAR(end, s.seconds() * 1e6, 0.01);
  const Json both = parse_json(chrome_trace(trace, trace), "trace");
  EXPECT_EQ(both["traceEvents"].size(), 2 * json["traceEvents"].size());
}

}  // namespace
}  // namespace tern
