#include "comm/ledger.h"

#include <gtest/gtest.h>

#include <array>

#include "base/rng.h"
#include "comm/decorators.h"
#include "comm/ranks_testing.h"

namespace tern {
namespace {

constexpr int kRanks = 3, kSends = 8;  // of each rank, in one round of work
using Answers = std::array<std::optional<ChangedMessage>, kRanks>;

void work(Comm& comm) {
  Arena arena;
  Tensor t = arena.zeros(DType::f32, {100}, MemoryClass::workspace);
  comm.all_reduce_sum({&t, 1});
  comm.all_gather({&t, 1});
  const double mine = comm.rank();
  comm.gather({&mine, 1});
}

// What each rank is told where a message of `who` is changed.
Answers answers_of(int who, TransportFault fault) {
  Answers answers;
  run_ranks(kRanks, {.baton = true}, [&](std::unique_ptr<Transport> inner) {
    if (inner->rank() == who) inner = faulty(std::move(inner), fault);
    Comm comm(with_ledger(std::move(inner)));
    comm.transport().keep_ledger(true);
    work(comm);
    const LinkBytes before = comm.bytes();
    answers[static_cast<size_t>(comm.rank())] = comm.transport().settle();
    EXPECT_EQ(comm.bytes(), before);
    work(comm);
    EXPECT_EQ(comm.transport().settle(), std::nullopt) << "said once";
  });
  return answers;
}

TEST(Ledger, EveryOneOfFiveHundredFlippedBitsIsFoundByAllRanksAlike) {
  for (uint64_t i = 0; i < 500; ++i) {
    const auto draw = [i](uint64_t of) { return static_cast<int64_t>(random_uniform({1, of}, i) * 1e9); };
    const int who = static_cast<int>(draw(2) % kRanks);
    const Answers answers = answers_of(
        who, {.kind = TransportFaultKind::corrupt, .at_send = draw(3) % kSends, .bit = static_cast<uint64_t>(draw(4))});
    ASSERT_TRUE(answers[0]) << i;
    EXPECT_EQ(answers[0]->from, who);
    EXPECT_NE(answers[0]->to, who);
    for (const auto& answer : answers) EXPECT_EQ(answer, answers[0]) << i;
  }
}

TEST(Ledger, WhatItSaysItselfPartsNoRanks) {
  for (int64_t own = 0; own < 4; ++own)
    for (uint64_t bit = 0; bit < 192; bit += 7) {
      const Answers answers = answers_of(1, {TransportFaultKind::corrupt, kSends + own, bit});
      EXPECT_EQ(answers[0].has_value(), own < 2) << own << ", bit " << bit;  // first the accounts, then the verdicts
      for (const auto& answer : answers) EXPECT_EQ(answer, answers[0]);
    }
}

TEST(Ledger, NothingIsSaidWhereNoneIsKept) {
  run_ranks(2, {.baton = true}, [&](std::unique_ptr<Transport> inner) {
    if (inner->rank() == 0) inner = faulty(std::move(inner), {TransportFaultKind::corrupt, 0});
    Comm comm(with_ledger(std::move(inner)));
    work(comm);
    EXPECT_EQ(comm.transport().settle(), std::nullopt);
  });
}

TEST(Ledger, OverSocketsTheStepAfterAChangedMessageIsWhole) {
  run_socket_ranks(2, 5, [&](std::unique_ptr<Transport> inner) {
    if (inner->rank() == 1) inner = faulty(std::move(inner), {TransportFaultKind::corrupt, 0});
    Comm comm(with_ledger(std::move(inner)));
    comm.transport().keep_ledger(true);
    work(comm);
    EXPECT_EQ(comm.transport().settle(), (ChangedMessage{.from = 1, .to = 0}));
    work(comm);
    EXPECT_EQ(comm.transport().settle(), std::nullopt);
  });
}

TEST(Comm, WhatRanksAgreeOnSurvivesAChangedCopy) {
  for (uint64_t bit = 0; bit < 3 * 128; bit += 5)
    run_ranks(kRanks, {.baton = true}, [&](std::unique_ptr<Transport> inner) {
      if (inner->rank() == 2) inner = faulty(std::move(inner), {TransportFaultKind::corrupt, 0, bit});
      Comm comm(std::move(inner));
      std::array<int64_t, 2> values{comm.rank() + 5, -comm.rank()};
      comm.agree(values, Combine::sum);
      EXPECT_EQ(values, (std::array<int64_t, 2>{18, -3})) << bit;
    });
}

}  // namespace
}  // namespace tern
