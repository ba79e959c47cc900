#include "comm/ring_messages.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "comm/ranks_testing.h"

namespace tern {
namespace {

// What each rank had goes once round, and comes home.
void go_round(Comm& comm) {
  Arena arena;
  const Tensor blocks[2] = {arena.zeros(DType::i32, {3}, MemoryClass::staging),
                            arena.zeros(DType::i32, {3}, MemoryClass::staging)};
  const int ranks = comm.size();
  blocks[0].span<int32_t>()[1] = comm.rank() + 10;
  RingMessages messages(comm);
  for (int hop = 0; hop < ranks; ++hop) {
    EXPECT_EQ(blocks[hop % 2].span<int32_t>()[1], (comm.rank() - hop + ranks) % ranks + 10);
    messages.send(blocks[hop % 2]);
    messages.receive(blocks[(hop + 1) % 2]);
    messages.settle();
  }
  EXPECT_EQ(blocks[ranks % 2].span<int32_t>()[1], comm.rank() + 10);
  EXPECT_EQ(comm.bytes(), (LinkBytes{ranks * 12, ranks * 12}));
}

TEST(RingMessages, BlocksGoRoundAndComeHome) {
  for (const int ranks : {2, 3, 5}) {
    with_comms(ranks, {.baton = true}, go_round);
    with_comms(ranks, {}, go_round);
    run_socket_ranks(ranks, 30, [](std::unique_ptr<Transport> transport) {
      Comm comm(std::move(transport));
      go_round(comm);
    });
  }
}

// A rank that leaves early takes back what it has posted, whose memory ends with it.
TEST(RingMessages, ARankThatFailsEndsTheOthersWithItsError) {
  const auto work = [](Comm& comm) {
    Arena arena;
    const Tensor block = arena.zeros(DType::f64, {1000}, MemoryClass::staging),
                 other = arena.zeros(DType::f64, {1000}, MemoryClass::staging);
    RingMessages messages(comm);
    messages.send(block);
    if (comm.rank() == 1) throw Error(ErrorKind::bug, "out of it");
    messages.receive(other);
    messages.settle();
    messages.receive(other);
  };
  try {
    with_comms(3, {}, work);
    ADD_FAILURE() << "nobody failed";
  } catch (const Error& e) { EXPECT_STREQ(e.what(), "out of it"); }
}

}  // namespace
}  // namespace tern
