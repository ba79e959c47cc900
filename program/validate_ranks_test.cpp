// The validator and the simulator on Programs for many ranks: what cannot run is found, and by its sentence.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/bug.h"
#include "program/faults_testing.h"
#include "program/placement_testing.h"
#include "program/simulate.h"
#include "program/validate.h"

namespace tern {
namespace {

int find(const Program& p, const std::string& text, int rank) {
  for (size_t k = 0; k < p.instructions.size(); ++k)
    if (p.instructions[k].rank == rank && to_string(p.instructions[k]) == text) return static_cast<int>(k);
  ADD_FAILURE() << "no " << text << " on rank " << rank;
  return 0;
}
Instruction& at(Program& p, const std::string& text, int rank) { return p.instructions[find(p, text, rank)]; }
// Takes an instruction out; places in `waits` move with it.
void erase(Program& p, int place) {
  p.instructions.erase(p.instructions.begin() + place);
  for (Instruction& i : p.instructions) {
    std::erase(i.waits, place);
    for (int& w : i.waits) w -= w > place;
  }
}

TEST(ValidateManyRanks, FindsMessagesWithoutPartner) {
  Program p = small_program();
  erase(p, find(p, "SEND output(unit 2, micro 1) to rank 1", 0));
  expect_fault(p, "RECV output(unit 2, micro 1) from rank 0: no SEND for it");
  p = small_program();
  at(p, "RECV gradient(unit 2, micro 0) from rank 1", 0).allocates[0].buffer.micro = 1;
  expect_fault(p, "SEND gradient(unit 2, micro 0) to rank 0: no RECV for it");
  p = small_program();
  at(p, "SEND output(unit 2, micro 1) to rank 1", 0).peer = 0;
  expect_fault(p, "peer 0 of 2 ranks");
}

TEST(ValidateManyRanks, FindsADeadlockAndNamesItsParties) {
  Program p = small_program();
  const int wait_on = find(p, "BACKWARD_WEIGHT unit 5 micro 1", 1);
  at(p, "FORWARD unit 1 micro 1", 0).waits.push_back(wait_on);
  expect_fault(p, "deadlock: rank 0 at [");
  expect_fault(p, "FORWARD unit 1 micro 1, which waits for [" + std::to_string(wait_on) + "] BACKWARD_WEIGHT unit 5");
  expect_fault(p, "; rank 1 at [");
}

TEST(ValidateManyRanks, FindsBrokenLives) {
  Program p = small_program();
  at(p, "BACKWARD_WEIGHT unit 3 micro 0", 1).frees.clear();
  expect_fault(p, "left(unit 3, micro 0) is still alive at the end (rank 1)");
  p = small_program();
  at(p, "BACKWARD_WEIGHT unit 3 micro 0", 1).frees.push_back({BufferKind::persistent, 3, -1});
  EXPECT_EQ(first_fault(p).find("persistent"), std::string::npos);
  at(p, "BACKWARD_WEIGHT unit 4 micro 1", 1).frees.push_back({BufferKind::persistent, 3, -1});
  expect_fault(p, "frees persistent(unit 3, micro -1), which is not alive");
}

TEST(ValidateManyRanks, FindsAFreeBesideAReaderOnAnotherClock) {
  Program p = small_program();
  const int send = find(p, "SEND output(unit 2, micro 0) to rank 1", 0);
  at(p, "JOIN output(unit 2, micro 0)", 0).waits.clear();
  expect_fault(p, "frees output(unit 2, micro 0), which [" + std::to_string(send) + "] may still read");
}

TEST(ValidateManyRanks, FindsWrongOrder) {
  const auto swapped = [](const std::string& a, const std::string& b, int rank) {
    Program p = small_program();
    std::swap(at(p, a, rank), at(p, b, rank));
    return p;
  };
  expect_fault(swapped("FORWARD unit 3 micro 0", "FORWARD unit 4 micro 0", 1), "comes before FORWARD unit 3 micro 0");
  expect_fault(swapped("BACKWARD_INPUT unit 3 micro 0", "BACKWARD_INPUT unit 4 micro 0", 1),
               "comes before BACKWARD_INPUT unit 4 micro 0");
  expect_fault(swapped("RECOMPUTE unit 3 micro 0", "BACKWARD_INPUT unit 3 micro 0", 1),
               "comes after its BACKWARD_INPUT");
  expect_fault(swapped("BACKWARD_WEIGHT unit 4 micro 0", "BACKWARD_WEIGHT unit 4 micro 1", 1),
               "comes before BACKWARD_WEIGHT unit 4 micro 0");
  Program p = small_program();
  at(p, "FORWARD unit 3 micro 1", 1).reads.clear();
  expect_fault(p, "does not read output(unit 2, micro 1)");
  p = small_program();
  at(p, "BACKWARD_INPUT unit 2 micro 1", 0).reads.clear();
  expect_fault(p, "does not read gradient(unit 2, micro 1)");
}

TEST(ValidateManyRanks, FindsAStepThatEndsTooEarlyOrElsewhere) {
  Program p = small_program();
  at(p, "REDUCE unit 3", 1).waits.clear();
  expect_fault(p, "does not wait for BACKWARD_WEIGHT unit 3 micro 1");
  p = small_program();
  at(p, "NORM", 1).waits.clear();
  expect_fault(p, "does not wait for the last reduction of rank 1");
  p = small_program();
  std::swap(at(p, "NORM", 0), at(p, "REDUCE unit 0", 0));
  expect_fault(p, "comes after NORM");
  p = small_program();
  erase(p, find(p, "NORM", 0));
  expect_fault(p, "no NORM on rank 0");
  p = small_program();
  at(p, "FORWARD unit 4 micro 1", 1).rank = 0;
  expect_fault(p, "on rank 0; the unit began on rank 1");
}

TEST(ValidateManyRanks, FindsFieldsOutOfRange) {
  const auto changed = [](auto change, const std::string& sentence) {
    Program p = small_program();
    change(at(p, "FORWARD unit 4 micro 0", 1));
    expect_fault(p, sentence);
  };
  changed([](Instruction& i) { i.unit = 6; }, "unit 6 of 6");
  changed([](Instruction& i) { i.micro = -1; }, "micro-batch -1 of 2");
  changed([](Instruction& i) { i.rank = 2; }, "rank 2 of 2");
  changed([](Instruction& i) { i.message_bytes = -1; }, "a negative cost");
  changed([](Instruction& i) { i.allocates.push_back({{BufferKind::saved, 4, 0}, -5}); }, "has -5 bytes");
  changed([](Instruction& i) { i.waits.push_back(1000); }, "waits for [1000], which is not there");
  Program p = small_program();
  p.resident.pop_back();
  expect_fault(p, "resident buffers of 1 ranks");
}

TEST(Simulate, RefusesWhatCannotRun) {
  Program p = small_program();
  p.instructions[0].waits.push_back(static_cast<int>(p.instructions.size()) - 1);
  EXPECT_THROW(simulate(p, std::vector<int64_t>(p.instructions.size(), 1)), Bug);
}

}  // namespace
}  // namespace tern
