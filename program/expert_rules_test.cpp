// Experts in steps of inference: sound for any caches and routings; each planted fault is found by its sentence.
#include "program/expert_rules.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <tuple>

#include "program/faults_testing.h"
#include "program/inference_program.h"
#include "program/placement_testing.h"
#include "program/simulate.h"

namespace tern {
namespace {

// Units 2 and 4 have three experts each, which share `slots` slots by last use, and read one extent for what they compute beside them. Each
// step uses some of them, ups before downs. Half of the slots are full before.
InferenceInput expert_input(const ModelSpec& spec, int slots, int steps, std::mt19937& random) {
  InferenceInput in{.extent_slots = 1, .extent_slot_bytes = 1000};
  in.units.resize(spec.units.size());
  in.expert_slot_bytes.assign(static_cast<size_t>(slots), 300);
  for (const int u : {2, 4}) in.units[static_cast<size_t>(u)] = {.parts = {0, 512}, .router_part = 0};
  std::vector<ExpertMatrix> there;  // used longest ago first
  for (int number = 0; number < slots / 2; ++number) there.push_back({2, number});
  in.experts_there = there;
  for (int m = 0; m < steps; ++m) {
    InferenceStep step{.query = {.tokens = 1}, .logit_rows = 1};
    step.experts.resize(spec.units.size());
    for (const int u : {2, 4}) {
      std::vector<int> chosen;
      for (int e = 0; e < 3; ++e)
        if (random() % 3 > 0) chosen.push_back(e);
      for (const int down : {0, 1})
        for (const int e : chosen) {
          const ExpertMatrix matrix{u, 2 * e + down};
          ExpertUse use{.number = matrix.number, .read = std::ranges::count(there, matrix) == 0};
          std::erase(there, matrix);
          if (use.read) {
            use.bytes = 512 + matrix.number;
            if (std::ssize(there) == slots) use.replaces = there.front(), there.erase(there.begin());
          }
          there.push_back(matrix);
          step.experts[static_cast<size_t>(u)].push_back(use);
        }
    }
    in.steps.push_back(std::move(step));
  }
  return in;
}
Program expert_program(int slots = 3, uint32_t seed = 1) {
  std::mt19937 random(seed);
  return lower_inference(small_spec(3), expert_input(small_spec(3), slots, 3, random));
}
bool loads_expert(const Instruction& i) {
  return i.op == Opcode::load && i.allocates[0].buffer.kind == BufferKind::expert;
}
Instruction& first(Program& p, bool (*of)(const Instruction&)) { return *std::ranges::find_if(p.instructions, of); }

// What is read is read once, behind the router and before its use; what is used is there; the disk's bytes are those of the uses.
TEST(ExpertRules, AreKeptForAnySlotsStepsAndRoutings) {
  std::mt19937 random(3);
  int loads = 0, hits = 0, replaced_in_list = 0;
  for (int round = 0; round < 300; ++round) {
    const ModelSpec spec = small_spec(3);
    const InferenceInput in = expert_input(spec, 1 + round % 9, 1 + round % 4, random);
    const Program p = lower_inference(spec, in);
    ASSERT_EQ(validate(p, kInference), std::vector<std::string>{}) << "round " << round;
    int64_t bytes = 0, want = 0;
    for (const Instruction& i : p.instructions) {
      if (loads_expert(i)) bytes += i.message_bytes, ++loads;
      replaced_in_list += loads_expert(i) && p.instructions[static_cast<size_t>(i.waits[0])].part > 2;
    }
    for (const InferenceStep& step : in.steps)
      for (const auto& uses : step.experts)
        for (const ExpertUse& use : uses) want += use.bytes, hits += !use.read;
    EXPECT_EQ(bytes, want);
  }
  EXPECT_GT(loads, 500);
  EXPECT_GT(hits, 500);
  EXPECT_GT(replaced_in_list, 100);
}

// Whatever takes how long: no slot has two experts at once, and none is used before it is read.
TEST(ExpertRules, OnTheClockNoSlotHasTwoExperts) {
  std::mt19937 random(4);
  for (int round = 0; round < 200; ++round) {
    const ModelSpec spec = small_spec(3);
    const Program p = lower_inference(spec, expert_input(spec, 1 + round % 5, 3, random));
    std::vector<int64_t> ps;
    for (size_t k = 0; k < p.instructions.size(); ++k) ps.push_back(static_cast<int64_t>(random() % 9));
    const Simulation s = simulate(p, ps);
    std::map<std::pair<int, int>, int64_t> read_end, used_until;  // of each matrix
    for (size_t k = 0; k < p.instructions.size(); ++k) {
      const Instruction& i = p.instructions[k];
      if (loads_expert(i)) {
        read_end[{i.unit, i.allocates[0].buffer.part}] = s.end[k];
        for (const Buffer& b : i.frees) { EXPECT_GE(s.start[k], (used_until[{b.unit, b.part}])) << to_string(i); }
        EXPECT_GE(s.start[k], s.end[static_cast<size_t>(i.waits[0])]);
      }
      for (const Buffer& b : i.reads)
        if (b.kind == BufferKind::expert) {
          EXPECT_GE(s.start[k], (read_end[{b.unit, b.part}])) << to_string(i);
          used_until[{b.unit, b.part}] = s.end[k];
        }
    }
  }
}

TEST(ExpertRules, WhatIsExpectedIsNamedSoAndEndsWithItsPart) {
  const ModelSpec spec = small_spec(2);
  InferenceInput in{.steps = {{.query = {.tokens = 1}}}};
  in.units.resize(spec.units.size());
  in.units[2].router_part = 0;
  in.steps[0].experts.resize(spec.units.size());
  in.steps[0].experts[2] = {{.bytes = 70}, {.bytes = 0}};
  const Program p = lower_inference(spec, in);
  EXPECT_EQ(validate(p, kInference), std::vector<std::string>{});
  std::vector<std::string> names;
  for (const Instruction& i : p.instructions)
    if (i.unit == 2) names.push_back(to_string(i));
  EXPECT_EQ(names, (std::vector<std::string>{"FORWARD unit 2 micro 0", "LOAD expected_expert(unit 2, micro 0, part 1)",
                                             "LOAD expected_expert(unit 2, micro 0, part 2)",
                                             "FORWARD unit 2 micro 0 part 1", "FORWARD unit 2 micro 0 part 2"}));
  Program kept = p;
  for (Instruction& i : kept.instructions)
    std::erase_if(i.frees, [](const Buffer& b) { return b.kind == BufferKind::expected_expert; });
  expect_fault(kept, "does not free expected_expert(unit 2, micro 0, part 1)", kInference);
}

TEST(ExpertRules, FindsAnExpertThatIsNotThere) {
  Program p = expert_program();
  const std::string name = to_string(first(p, loads_expert).allocates[0].buffer);
  take_out(p, std::ranges::find_if(p.instructions, loads_expert) - p.instructions.begin());
  expect_fault(p, "reads " + name + ", which is not alive", kInference);
}
TEST(ExpertRules, FindsAReadBeforeTheRouter) {
  Program p = expert_program();
  first(p, loads_expert).waits.clear();
  expect_fault(p, "does not wait for the router", kInference);
  p = expert_program();
  first(p, loads_expert).waits = {1};  // of another unit
  expect_fault(p, "does not wait for the router", kInference);
}
TEST(ExpertRules, FindsASlotThatIsStillUsed) {
  const auto waits_for_a_use = [](const Program& p) {
    return std::ranges::find_if(p.instructions, [&](const Instruction& i) {
      return loads_expert(i) && uses_expert(p.instructions[static_cast<size_t>(i.waits[0])]);
    });
  };
  Program p = expert_program(1);
  const auto it = waits_for_a_use(p);
  ASSERT_NE(it, p.instructions.end());
  Instruction& i = p.instructions[static_cast<size_t>(it - p.instructions.begin())];
  while (uses_expert(p.instructions[static_cast<size_t>(i.waits[0])]))
    --i.waits[0];  // the router's part, or one behind it
  expect_fault(p, "may still read", kInference);
}
TEST(ExpertRules, FindsMoreExpertsThanSlots) {
  Program p = expert_program();
  std::erase_if(p.resident[0],
                [](const BufferBytes& b) { return b.buffer.kind == BufferKind::expert_slot && b.buffer.unit == 0; });
  expect_fault(p, "has no slot: 3 experts in 2", kInference);
  p = expert_program();
  for (Instruction& i : p.instructions)
    if (loads_expert(i)) i.frees.clear();
  expect_fault(p, "has no slot: 4 experts in 3", kInference);
}
TEST(ExpertRules, FindsAReadThatNoPartUses) {
  Program p = expert_program();
  Instruction more = first(p, loads_expert);
  more.allocates[0].buffer.part = 77, more.frees = {more.allocates[0].buffer};
  p.resident[0].push_back({{BufferKind::expert_slot, 9, 0}, 300});
  p.instructions.push_back(more);
  expect_fault(p, "no part of its step uses it", kInference);
}
TEST(ExpertRules, FindsAnotherUnitsExpertAndTwoAtATime) {
  Program p = expert_program();
  Buffer& used = *std::ranges::find_if(first(p, uses_expert).reads, is_expert);
  used.unit = 4;
  expect_fault(p, "which is another's", kInference);
  p = expert_program();
  Instruction& part = first(p, uses_expert);
  part.reads.push_back({.kind = BufferKind::expert, .unit = 2, .micro = 0, .part = 5});
  expect_fault(p, "uses 2 experts", kInference);
}
TEST(ExpertRules, FindsAPartBehindExperts) {
  Program p = expert_program();
  const auto second =
      std::find_if(std::ranges::find_if(p.instructions, uses_expert) + 1, p.instructions.end(), uses_expert);
  ASSERT_EQ(second->unit, first(p, uses_expert).unit);
  std::erase_if(second->reads, is_expert);
  expect_fault(p, "stands behind a part that uses an expert", kInference);
}

}  // namespace
}  // namespace tern
