// What is of ranks as threads alone; what every transport keeps stands in transports_test.cpp.
#include "comm/thread_world.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "base/bug.h"
#include "base/error.h"
#include "comm/ranks_testing.h"

namespace tern {
namespace {

class Worlds : public testing::TestWithParam<bool> {
 protected:
  ThreadWorldOptions options() const { return {.baton = GetParam()}; }
};
INSTANTIATE_TEST_SUITE_P(Modes, Worlds, testing::Bool(),
                         [](const auto& mode) { return mode.param ? "baton" : "free"; });

TEST_P(Worlds, MessagesOfAPairKeepTheirOrderAndBytesAreCountedByPeer) {
  run_ranks(3, options(), [](std::unique_ptr<Transport> t) {
    constexpr int kMessages = 200;
    std::vector<int> out(kMessages);
    for (int i = 0; i < kMessages; ++i) {
      out[i] = 1000 * t->rank() + i;
      for (int to = 0; to < 3; ++to)
        if (to != t->rank()) t->send(to, kTestTag, bytes_of(out[i]));
    }
    for (int i = 0; i < kMessages; ++i)
      for (int from = 0; from < 3; ++from) {
        if (from == t->rank()) continue;
        int got = -1;
        t->recv(from, kTestTag, room_of(got));
        ASSERT_EQ(got, 1000 * from + i);
      }
    t->flush();
    for (int peer = 0; peer < 3; ++peer) {
      const int64_t want = peer == t->rank() ? 0 : kMessages * static_cast<int64_t>(sizeof(int));
      EXPECT_EQ(t->bytes(peer).received, want);
      EXPECT_EQ(t->bytes(peer).sent, want);
    }
  });
}

std::string failure_of(int ranks, const ThreadWorldOptions& options, const std::function<void(Transport&)>& work) {
  try {
    run_ranks(ranks, options, [&](std::unique_ptr<Transport> t) { work(*t); });
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::peer);
    return e.what();
  } catch (const Bug& e) { return e.what(); }
  return "no error";
}

TEST_P(Worlds, ADeadlockIsToldAtOnceWithWhoWaitsForWhom) {
  const auto begin = std::chrono::steady_clock::now();
  const std::string text = failure_of(3, options(), [](Transport& t) {
    int x = 0;
    if (t.rank() < 2) t.recv(1 - t.rank(), tag_of(MessageKind::all_gather, 4), room_of(x));
  });
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
  EXPECT_NE(text.find("deadlock"), std::string::npos) << text;
  EXPECT_NE(text.find("rank 0 waits for all-gather 4 of rank 1"), std::string::npos) << text;
  EXPECT_NE(text.find("rank 1 waits for all-gather 4 of rank 0"), std::string::npos) << text;
  EXPECT_NE(text.find("rank 2 has ended"), std::string::npos) << text;
}

TEST_P(Worlds, WhatNobodyReceivesIsADeadlockToo) {
  const std::string text = failure_of(2, options(), [](Transport& t) {
    const int x = 1;
    if (t.rank() == 0) t.send(1, kTestTag, bytes_of(x)), t.flush();
  });
  EXPECT_NE(text.find("rank 0 waits for rank 1 to receive message 1"), std::string::npos) << text;
}

TEST(ThreadWorld, ADeadlineNamesWhoWasAwaited) {
  std::atomic<bool> over = false;
  const std::string text = failure_of(2, {.deadline_s = 0.05}, [&](Transport& t) {
    int x = 0;
    if (t.rank() == 0) {
      try {
        t.recv(1, kTestTag, room_of(x));
      } catch (...) {
        over = true;
        throw;
      }
    }
    while (t.rank() == 1 && !over) std::this_thread::yield();  // busy, so no deadlock
  });
  EXPECT_NE(text.find("waited for message 1 of rank 1 longer than the 0.05 s"), std::string::npos) << text;
}

TEST(ThreadWorld, UnderABatonOneRankRunsAtATimeAndTheOrderIsFixed) {
  std::vector<std::vector<int>> orders;
  for (int round = 0; round < 3; ++round) {
    std::vector<int> order;  // not locked: the baton is the lock
    std::atomic<int> inside = 0;
    with_comms(16, {.baton = true}, [&](Comm& comm) {
      for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(++inside, 1);
        order.push_back(comm.rank());
        std::this_thread::yield();
        --inside;
        comm.barrier();
      }
    });
    orders.push_back(order);
  }
  EXPECT_EQ(orders[0].size(), 48u);
  EXPECT_EQ(orders[0], orders[1]);
  EXPECT_EQ(orders[0], orders[2]);
}

TEST_P(Worlds, ARankThatDoesNotComeToReconfigureIsNamed) {
  const std::string text = failure_of(2, options(), [](Transport& t) {
    int x = 0;
    if (t.rank() == 1) return;
    EXPECT_THROW(t.recv(1, kTestTag, room_of(x)), Error);
    t.reconfigure(1);
  });
  EXPECT_NE(text.find("rank 0 waits for all ranks in generation 1; rank 1 has ended"), std::string::npos) << text;
}

TEST(ThreadWorld, SixtyFourRanksUnderABaton) {
  with_comms(64, {.baton = true}, [](Comm& comm) {
    int64_t sum = comm.rank();
    comm.all_reduce({&sum, 1}, Combine::sum);
    EXPECT_EQ(sum, 64 * 63 / 2);
  });
}

}  // namespace
}  // namespace tern
