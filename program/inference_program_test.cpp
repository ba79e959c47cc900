// Inference as a Program: sound for any cut into parts, any slots and steps; each planted fault is found by its sentence.
#include "program/inference_program.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <tuple>

#include "program/checksum.h"
#include "program/faults_testing.h"
#include "program/placement_testing.h"
#include "program/simulate.h"

namespace tern {
namespace {

// Extents in every third part, keys of every other layer on the disk.
InferenceInput cut_input(const ModelSpec& spec, int parts, int slots, int keys_slots, int steps) {
  InferenceInput in{.extent_slots = slots,
                    .keys_slots = keys_slots,
                    .extent_slot_bytes = 1000,
                    .keys_slot_bytes = 500,
                    .weight_bytes = 7000,
                    .page_bytes = 300};
  int next = 0;
  for (size_t u = 0; u < spec.units.size(); ++u) {
    in.units.emplace_back();
    for (int p = 0; p < parts && u > 0; ++p, ++next) in.units.back().parts.push_back(next % 3 == 2 ? 0 : 512 + next);
  }
  for (int m = 0; m < steps; ++m) {
    InferenceStep step{.query = {.tokens = m == 0 ? 5 : 1}, .logit_rows = m == 1 ? 0 : 1};
    if (keys_slots > 0) {
      step.keys.resize(spec.units.size());
      for (size_t u = 1; u < spec.units.size(); u += 4) step.keys[u] = KvMoved{.read = 64 * m, .written = 64};
    }
    in.steps.push_back(std::move(step));
  }
  return in;
}

Program cut_program(int slots = 2, int keys_slots = 1) {
  return lower_inference(small_spec(3), cut_input(small_spec(3), 2, slots, keys_slots, 3));
}

int64_t place_of(const Program& p, Opcode op, int unit, int micro, int part = 0) {
  for (size_t k = 0; k < p.instructions.size(); ++k) {
    const Instruction& i = p.instructions[k];
    if (i.op == op && i.unit == unit && i.micro == micro && i.part == part) return static_cast<int64_t>(k);
  }
  ADD_FAILURE() << "no " << name_of(op) << " " << unit << " " << micro << " " << part;
  return 0;
}
Instruction& find_in(Program& p, Opcode op, int unit, int micro, int part = 0) {
  return p.instructions[static_cast<size_t>(place_of(p, op, unit, micro, part))];
}

TEST(InferenceProgram, IsValidForAnyPartsSlotsAndSteps) {
  for (const int64_t layers : {1, 3})
    for (const int parts : {0, 1, 2, 5})
      for (const int slots : {1, 2, 3, 5, 40})
        for (const int keys_slots : {0, 1, 2, 3})
          for (const int steps : {1, 2, 4}) {
            const ModelSpec spec = small_spec(layers);
            const Program p = lower_inference(spec, cut_input(spec, parts, slots, keys_slots, steps));
            ASSERT_EQ(validate(p, kInference), std::vector<std::string>{})
                << layers << " layers, " << parts << " parts, " << slots << " and " << keys_slots << " slots, "
                << steps;
          }
}

// Windows of blocks, of steps with and without a head. Blocks: two units each, and the head.
TEST(InferenceProgram, IsValidForAnyWindow) {
  const ModelSpec spec = small_spec(3);
  for (const int resident : {1, 2, 3, 4})
    for (int step = 1; step <= resident; ++step)
      for (const int keys_slots : {0, 2}) {
        InferenceInput in = cut_input(spec, 3, 0, keys_slots, 4);
        RingWindow& w = in.extent_window;
        w = {.blocks = {0, 0, 0, 0}, .resident = resident, .step = step};
        for (size_t u = 1; u < spec.units.size(); ++u)
          for (const int64_t part : in.units[u].parts) w.blocks[std::min<size_t>((u - 1) / 2, 3)] += part > 0;
        in.extent_slots = slots_for(w);
        const Program p = lower_inference(spec, in);
        ASSERT_EQ(validate(p, kInference), std::vector<std::string>{}) << resident << ", " << step;
        int alive = 0, most = 0, uses = 0;
        for (const Instruction& i : p.instructions) {
          if (i.op == Opcode::load && i.part > 0) most = std::max(most, ++alive);
          for (const Buffer& b : i.frees) alive -= b.kind == BufferKind::extent, uses += b.kind == BufferKind::extent;
        }
        EXPECT_EQ(most, in.extent_slots) << resident << ", " << step;
        EXPECT_EQ(uses, 4 * 12 + 3 * 2);
        // Until a block is used, the next `resident` − 1 are on their way; no part of it begins before all of it is there.
        const Instruction& first = p.instructions[static_cast<size_t>(place_of(p, Opcode::forward, 1, 0, 1))];
        ASSERT_EQ(first.waits.size(), 1u);
        EXPECT_EQ(first.waits[0], place_of(p, Opcode::load, 2, 0, 2));
      }
}

// Each use has one LOAD before it, and no more extents than slots lie in memory; the first LOADs of a step stand before the end of the
// step before.
TEST(InferenceProgram, LoadsEachExtentOncePerUseAndBeforeItWithinTheSlots) {
  const ModelSpec spec = small_spec(3);
  for (const int slots : {1, 2, 3, 7}) {
    const Program p = lower_inference(spec, cut_input(spec, 3, slots, 2, 3));
    std::map<std::tuple<int, int, int>, int> loaded;
    std::set<std::tuple<int, int, int>> used;
    int alive = 0, most = 0;
    for (const Instruction& i : p.instructions) {
      if (i.op == Opcode::load && i.allocates[0].buffer.kind == BufferKind::extent) {
        ++loaded[{i.unit, i.micro, i.part}];
        most = std::max(most, ++alive);
        EXPECT_EQ(i.message_bytes % 512, (i.unit - 1) * 3 + i.part - 1);
        EXPECT_EQ(i.resource, Resource::disk);
      }
      for (const Buffer& b : i.frees)
        if (b.kind == BufferKind::extent) {
          EXPECT_EQ((loaded[{b.unit, b.micro, b.part}]), 1);
          EXPECT_TRUE(used.emplace(b.unit, b.micro, b.part).second);
          --alive;
        }
    }
    EXPECT_EQ(used.size(), loaded.size());
    EXPECT_EQ(used.size(), 3u * 12 + 2 * 2);  // six units between embedding and head, and the head of two steps
    EXPECT_EQ(most, slots);
    if (slots < 3) continue;
    EXPECT_LT(place_of(p, Opcode::load, 1, 1, 1), place_of(p, Opcode::forward, 7, 0, 3));
  }
}

// Resident: what stays, pages and slots. Beside it two outputs and a unit's workspace, with that of rows which a product decodes.
TEST(InferenceProgram, CountsWhatTheDeviceHolds) {
  const ModelSpec spec = small_spec(2);
  InferenceInput in = cut_input(spec, 2, 3, 2, 1);
  in.steps[0] = {.query = {.tokens = 5}, .logit_rows = 3};
  in.units[0].table_row_bytes = 11;
  in.units[2].products = {{.out = 48, .in = 16, .decoded_bytes = 300}, {.out = 16, .in = 24}};
  in.units[5].products = {{.out = 40, .in = 16, .decoded_bytes = 2}};
  const Program p = lower_inference(spec, in);
  ASSERT_EQ(validate(p, kInference), std::vector<std::string>{});
  const Simulation s = simulate(p);
  const auto of = [&](int unit, int part) {
    return s.replay[static_cast<size_t>(place_of(p, Opcode::forward, unit, 0, part))];
  };
  const int64_t output = 5 * 16 * 4;
  EXPECT_EQ(s.at_end[0][0], 7000 + 300 + 3 * 1000 + 2 * 500);
  EXPECT_EQ(of(0, 0).workspace, 5 * 11);
  EXPECT_EQ(of(0, 0).after, output);
  for (const int part : {0, 1, 2}) {
    EXPECT_EQ(of(2, part).peak_buffers, 2 * output);
    // normed, up and gate, and the rows that their product decodes
    EXPECT_EQ(of(2, part).workspace, 5 * 16 * 4 + 5 * 48 * 4 + 300);
    EXPECT_EQ(of(5, part).peak_buffers, output + 3 * 40 * 4);
    EXPECT_EQ(of(5, part).workspace, 2 * 3 * 16 * 4 + 2);
  }
  EXPECT_EQ(of(5, 2).after, 0);
  EXPECT_EQ(of(2, 2).after, output);
}

TEST(InferenceProgram, PartsHaveNamesAndAChecksum) {
  Program p = cut_program();
  EXPECT_EQ(to_string(find_in(p, Opcode::load, 1, 0, 1)), "LOAD extent(unit 1, micro 0, part 1)");
  EXPECT_EQ(to_string(find_in(p, Opcode::load, 1, 2)), "LOAD keys(unit 1, micro 2)");
  EXPECT_EQ(to_string(find_in(p, Opcode::store, 5, 1)), "STORE keys(unit 5, micro 1)");
  EXPECT_EQ(to_string(find_in(p, Opcode::forward, 1, 1)), "FORWARD unit 1 micro 1");
  EXPECT_EQ(to_string(find_in(p, Opcode::forward, 1, 1, 2)), "FORWARD unit 1 micro 1 part 2");
  const uint32_t before = checksum(p);
  find_in(p, Opcode::forward, 1, 1, 2).part = 3;
  EXPECT_NE(checksum(p), before);
}

TEST(ValidateInference, FindsPartsOutOfOrder) {
  Program p = cut_program();
  std::swap(find_in(p, Opcode::forward, 2, 1, 1), find_in(p, Opcode::forward, 2, 1, 2));
  expect_fault(p, "follows [", kInference);
}
TEST(ValidateInference, FindsAPartThatRunsTwice) {
  Program p = cut_program();
  Instruction again = find_in(p, Opcode::forward, 3, 1);
  p.instructions.push_back(again);
  expect_fault(p, "a second time; first at", kInference);
}
TEST(ValidateInference, FindsAUnitOfOtherPartsInAnotherStep) {
  const ModelSpec spec = small_spec(1);
  InferenceInput in{.steps = {{.query = {.tokens = 1}}, {.query = {.tokens = 1}}}};
  in.units.resize(spec.units.size());
  in.units[1].parts = {0, 0};
  Program p = lower_inference(spec, in);
  ASSERT_EQ(validate(p, kInference), std::vector<std::string>{});
  Instruction& last = find_in(p, Opcode::forward, 1, 1, 2);
  find_in(p, Opcode::forward, 1, 1, 1).frees = last.frees;
  take_out(p, place_of(p, Opcode::forward, 1, 1, 2));
  expect_fault(p, "ends unit 1 behind part 1, in an earlier step behind part 2", kInference);
}
TEST(ValidateInference, FindsAMissingUnitButLetsTheHeadBeLeftOut) {
  Program p = cut_program();  // the second step has no head
  EXPECT_EQ(validate(p, kInference), std::vector<std::string>{});
  for (const int part : {0, 1, 2}) take_out(p, place_of(p, Opcode::forward, 3, 2, part));
  expect_fault(p, "no FORWARD unit 3 micro 2", kInference);
}
TEST(ValidateInference, FindsAnExtentThatIsNotLoadedOrLoadedTwice) {
  Program p = cut_program();
  take_out(p, place_of(p, Opcode::load, 2, 1, 2));
  expect_fault(p, "reads extent(unit 2, micro 1, part 2), which is not alive", kInference);
  p = cut_program();
  p.instructions.push_back(find_in(p, Opcode::load, 2, 1, 2));
  expect_fault(p, "extent(unit 2, micro 1, part 2) is still alive at the end", kInference);
}
TEST(ValidateInference, FindsAnotherPartsExtent) {
  Program p = cut_program();
  Instruction &one = find_in(p, Opcode::forward, 1, 0, 1), &two = find_in(p, Opcode::forward, 1, 0, 2);
  std::swap(one.reads, two.reads);
  std::swap(one.frees, two.frees);
  expect_fault(p, "which is another's", kInference);
}
TEST(ValidateInference, FindsAnExtentThatIsKept) {
  Program p = cut_program(40);
  std::erase_if(find_in(p, Opcode::forward, 1, 0, 1).frees,
                [](const Buffer& b) { return b.kind == BufferKind::extent; });
  expect_fault(p, "does not free extent(unit 1, micro 0, part 1)", kInference);
}
TEST(ValidateInference, FindsSlotsThatAreOvercommitted) {
  for (const int slots : {1, 2, 3}) {
    Program p = cut_program(slots);
    std::erase_if(p.resident[0],
                  [](const BufferBytes& b) { return b.buffer.kind == BufferKind::extent_slot && b.buffer.unit == 0; });
    expect_fault(p, "has no slot", kInference);
    p = cut_program(slots);
    for (Instruction& i : p.instructions)
      if (i.op == Opcode::load && i.part > 0) i.waits.clear();  // in the list behind it, but not in time
    expect_fault(p, "which frees its slot", kInference);
  }
}
TEST(ValidateInference, FindsKeysThatComeTooEarly) {
  Program p = cut_program();
  find_in(p, Opcode::load, 1, 1).waits.clear();
  expect_fault(p, "does not wait for the end of the step before", kInference);
  p = cut_program(2, 2);
  ASSERT_EQ(validate(p, kInference), std::vector<std::string>{});
  std::erase_if(p.resident[0], [](const BufferBytes& b) { return b.buffer.kind == BufferKind::keys_slot; });
  expect_fault(p, "has no slot: there are none", kInference);
}
TEST(ValidateInference, FindsKeysThatAreWrittenTooEarlyOrUnread) {
  Program p = cut_program();
  std::erase(find_in(p, Opcode::store, 1, 0).waits, static_cast<int>(place_of(p, Opcode::forward, 1, 0, 2)));
  expect_fault(p, "does not wait for the unit's FORWARD", kInference);
  p = cut_program();
  std::erase(find_in(p, Opcode::store, 1, 0).waits, static_cast<int>(place_of(p, Opcode::forward, 1, 0)));
  expect_fault(p, "may still read", kInference);
  p = cut_program();
  std::erase_if(find_in(p, Opcode::forward, 1, 0).reads, [](const Buffer& b) { return b.kind == BufferKind::keys; });
  expect_fault(p, "no FORWARD read keys(unit 1, micro 0)", kInference);
}
TEST(ValidateInference, FindsWhatNoStepOfInferenceDoes) {
  Program p = cut_program();
  p.instructions.push_back({.op = Opcode::join, .unit = 1, .micro = 2});
  expect_fault(p, "in a program of inference", kInference);
  EXPECT_FALSE(validate(cut_program(), ProgramKind::forward).empty());
}

// The same list with `place` and the place behind it swapped.
void swap_neighbours(Program& p, size_t place) {
  std::swap(p.instructions[place], p.instructions[place + 1]);
  const int first = static_cast<int>(place);
  for (Instruction& i : p.instructions)
    for (int& w : i.waits)
      if (w == first || w == first + 1) w = 2 * first + 1 - w;
}

// With two neighbours swapped, or one wait taken out: where the rules let that pass, no slot holds two extents at once, whatever takes how long.
TEST(ValidateInference, WhatItLetsPassNeverOvercommitsOnTheClock) {
  std::mt19937 random(5);
  const auto draw = [&](uint32_t n) { return static_cast<int64_t>(random() % n); };
  int passed[] = {0, 0}, refused[] = {0, 0};  // swapped; a wait taken out
  for (int round = 0; round < 800; ++round) {
    const int slots = 1 + static_cast<int>(draw(3));
    Program p = cut_program(slots, 1 + static_cast<int>(draw(2)));
    const int change = round % 2;
    if (change == 0) {
      swap_neighbours(p, static_cast<size_t>(draw(static_cast<uint32_t>(p.instructions.size()) - 1)));
    } else {
      std::vector<size_t> with_waits;
      for (size_t k = 0; k < p.instructions.size(); ++k)
        if (!p.instructions[k].waits.empty()) with_waits.push_back(k);
      Instruction& i = p.instructions[with_waits[static_cast<size_t>(draw(static_cast<uint32_t>(with_waits.size())))]];
      i.waits.erase(i.waits.begin() + draw(static_cast<uint32_t>(i.waits.size())));
    }
    if (!validate(p, kInference).empty()) {
      ++refused[change];
      continue;
    }
    ++passed[change];
    std::vector<int64_t> ps;
    for (size_t k = 0; k < p.instructions.size(); ++k) ps.push_back(draw(9));
    const Simulation s = simulate(p, ps);
    std::vector<std::pair<int64_t, int64_t>> held;  // of each extent, in the order of LOADs
    std::map<std::tuple<int, int, int>, size_t> number;
    for (size_t k = 0; k < p.instructions.size(); ++k) {
      const Instruction& one = p.instructions[k];
      if (one.op == Opcode::load && one.part > 0) {
        number[{one.unit, one.micro, one.part}] = held.size();
        held.emplace_back(s.start[k], 0);
      } else if (one.op == Opcode::forward && number.contains({one.unit, one.micro, one.part})) {
        held[number[{one.unit, one.micro, one.part}]].second = s.end[k];
      }
    }
    for (size_t n = static_cast<size_t>(slots); n < held.size(); ++n)
      ASSERT_GE(held[n].first, held[n - static_cast<size_t>(slots)].second) << "round " << round;
  }
  for (const int change : {0, 1}) {
    EXPECT_GT(passed[change], 10) << change;
    EXPECT_GT(refused[change], 50) << change;
  }
}

}  // namespace
}  // namespace tern
