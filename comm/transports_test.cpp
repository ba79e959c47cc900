// One test of all transports: the same values to the bit, the bytes of the closed forms, the same words when it fails.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <map>
#include <thread>

#include "base/bug.h"
#include "comm/collective_cases_testing.h"
#include "comm/decorators.h"
#include "comm/group.h"
#include "comm/ranks_testing.h"

namespace tern {
namespace {

using Work = std::function<void(std::unique_ptr<Transport>)>;
struct Maker {
  const char* name;
  void (*run)(int ranks, const Work&);
};
const std::array kMakers{Maker{"threads", [](int n, const Work& w) { run_ranks(n, {}, w); }},
                         Maker{"baton", [](int n, const Work& w) { run_ranks(n, {.baton = true}, w); }},
                         Maker{"sockets", [](int n, const Work& w) { run_socket_ranks(n, 20, w); }},
                         Maker{"paced", [](int n, const Work& w) {
                                 run_socket_ranks(n, 20, [&](std::unique_ptr<Transport> t) {
                                   VirtualClock clock;
                                   w(paced(std::move(t), {.bytes_per_s = 1e9, .latency_s = 1e-3}, clock));
                                 });
                               }}};

class Transports : public testing::TestWithParam<Maker> {
 protected:
  static void run_comms(int ranks, const std::function<void(Comm&)>& work) {
    GetParam().run(ranks, [&](std::unique_ptr<Transport> t) {
      Comm comm(std::move(t));
      work(comm);
    });
  }
  static std::string failure_of(int ranks, const std::function<void(Transport&)>& work) {
    try {
      GetParam().run(ranks, [&](std::unique_ptr<Transport> t) { work(*t); });
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::peer);
      return e.what();
    } catch (const Bug& e) { return e.what(); }
    return "no error";
  }
};
INSTANTIATE_TEST_SUITE_P(All, Transports, testing::ValuesIn(kMakers), [](const auto& m) { return m.param.name; });

const std::vector<std::vector<Seen>>& of_the_baton(int ranks) {
  static std::map<int, std::vector<std::vector<Seen>>> known;
  std::vector<std::vector<Seen>>& all = known[ranks];
  if (all.empty()) {
    all.resize(static_cast<size_t>(ranks));
    with_comms(ranks, {.baton = true}, [&](Comm& comm) { all[static_cast<size_t>(comm.rank())] = all_cases(comm); });
  }
  return all;
}

TEST_P(Transports, EveryCollectiveHasTheBitsOfTheBatonAndTheBytesOfItsClosedForm) {
  for (const int ranks : {1, 2, 3, 4, 8}) {
    const std::vector<std::vector<Seen>>& want = of_the_baton(ranks);
    run_comms(ranks, [&](Comm& comm) {
      const std::vector<Seen> got = all_cases(comm), &of_rank = want[static_cast<size_t>(comm.rank())];
      for (size_t i = 0; i < got.size(); ++i)
        EXPECT_EQ(got[i] == of_rank[i], true) << ranks << " ranks, rank " << comm.rank() << ", case " << i;
    });
  }
}

TEST_P(Transports, MessagesOfAPairKeepTheirOrderAndAnyTellsWhoItWas) {
  GetParam().run(4, [](std::unique_ptr<Transport> t) {
    std::vector<int> out(300);
    for (int i = 0; i < 300; ++i) out[i] = 1000 * t->rank() + i;
    if (t->rank() > 0) {
      for (const int& x : out) t->send(0, kTestTag, bytes_of(x));
      return t->flush();
    }
    std::vector<int> from{1, 2, 3}, next{0, 0, 0, 0};
    for (int left = 900; left > 0; --left) {
      int got = -1;
      const int who = t->recv_any(from, kTestTag, room_of(got));
      ASSERT_EQ(got, 1000 * who + next[who]++);
      if (next[who] == 300) std::erase(from, who);
    }
  });
}

TEST_P(Transports, PollingSeesAMessageWithoutTakingItAndOneToItselfArrives) {
  GetParam().run(2, [](std::unique_ptr<Transport> t) {
    int x = 5, mine = 9, got = 0;
    if (t->rank() == 1) {
      t->send(0, kTestTag, bytes_of(x));
      return t->flush();
    }
    while (!t->poll(1)) std::this_thread::yield();
    EXPECT_TRUE(t->poll(1));
    t->recv(1, kTestTag, room_of(got));
    EXPECT_EQ(got, 5);
    EXPECT_FALSE(t->poll(1));
    t->send(0, kTestTag, bytes_of(mine));
    t->recv(0, kTestTag, room_of(got));
    EXPECT_EQ(got, 9);
    t->flush();
  });
}

// Stages of a pipeline: a message to another stage waits, whoever is a group with its neighbour goes on.
TEST_P(Transports, AGroupIsDoneWhileOthersHaveNotTakenWhatWasSentToThem) {
  GetParam().run(4, [](std::unique_ptr<Transport> t) {
    const int rank = t->rank(), across = rank ^ 2;
    std::vector<int> out(1 << 20, 7 + rank), in(out.size());  // more than buffers of the system hold
    t->send(across, kTestTag, std::as_bytes(std::span(out)));
    Comm group(group_of(*t, {rank & 2, (rank & 2) + 1}));
    int64_t sum = 1 + rank % 2;
    for (int i = 0; i < 3; ++i) group.all_reduce({&sum, 1}, Combine::sum);
    EXPECT_EQ(sum, 12);
    t->recv(across, kTestTag, std::as_writable_bytes(std::span(in)));
    EXPECT_EQ(in.back(), 7 + across);
    t->flush();
  });
}

// Longer than any buffer of the system: sends must go out while their sender receives.
TEST_P(Transports, ExchangesLongerThanAnyBufferDoNotBlock) {
  run_comms(3, [](Comm& comm) {
    Arena arena;
    Tensor t = arena.zeros(DType::u8, {(int64_t{24} << 20) + 1}, MemoryClass::workspace);
    auto* x = static_cast<uint8_t*>(t.data());
    std::fill(x, x + t.count(), static_cast<uint8_t>(comm.rank() + 1));
    comm.all_reduce_sum({&t, 1});
    EXPECT_TRUE(std::all_of(x, x + t.count(), [](uint8_t b) { return b == 6; }));
  });
}

// 64 MiB of every type, a little more than whole pieces: the bits of the baton, over whatever carries them.
class TransportsSlow : public Transports {};
INSTANTIATE_TEST_SUITE_P(All, TransportsSlow, testing::ValuesIn(kMakers), [](const auto& m) { return m.param.name; });

TEST_P(TransportsSlow, SixtyFourMebibytesOfEveryType) {
  run_comms(2, [](Comm& comm) { expect_large_sums(comm); });
}

// Returns on `last` when all others wait for nothing any more: a failure would reach who is not done.
void meet(Transport& t, int last) {
  static const int mine = 1;  // read after this returns
  int got = 0;
  for (int r = 0; r < t.size(); ++r)
    if (r != t.rank()) t.send(r, kTestTag, bytes_of(mine));
  for (int r = 0; r < t.size(); ++r)
    if (r != t.rank()) t.recv(r, kTestTag, room_of(got));
  t.flush();
  if (t.rank() != last) t.send(last, kTestTag, bytes_of(mine));
  for (int r = 0; r < t.size(); ++r)
    if (t.rank() == last && r != last) t.recv(r, kTestTag, room_of(got));
}

TEST_P(Transports, AFailingRankEndsTheOthersAndItsOwnErrorIsTheOneThatIsThrown) {
  std::atomic<int> ended = 0;
  try {
    GetParam().run(4, [&](std::unique_ptr<Transport> t) {
      meet(*t, 2);
      if (t->rank() == 2) throw Error(ErrorKind::bad_file, "the disk of rank 2");
      int x = 0;
      try {
        t->recv(2, kTestTag, room_of(x));
      } catch (const Error& e) {
        EXPECT_NE(std::string(e.what()).find("rank 2 failed: the disk of rank 2"), std::string::npos) << e.what();
        ++ended;
        throw;
      }
    });
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::bad_file);
    EXPECT_STREQ(e.what(), "the disk of rank 2");
  }
  EXPECT_EQ(ended, 3);
}

TEST_P(Transports, AnotherTagOrLengthThanExpectedIsABug) {
  const auto sent_and_expected = [&](uint64_t tag, size_t length) {
    return failure_of(2, [&](Transport& t) {
      std::array<std::byte, 8> room{};
      if (t.rank() == 0) t.send(1, kTestTag, std::span(room).first(4)), t.flush();
      if (t.rank() == 1) t.recv(0, tag, std::span(room).first(length));
    });
  };
  EXPECT_EQ(sent_and_expected(kTestTag, 4), "no error");
  EXPECT_NE(sent_and_expected(tag_of(MessageKind::integers, 3), 4).find("expects agreement 3"), std::string::npos);
  EXPECT_NE(sent_and_expected(kTestTag, 8).find("of 8 bytes from rank 0, which sent message 1 of 4"),
            std::string::npos);
}

TEST_P(Transports, AfterAFailureAllGoOnInANewGenerationAndNothingStaleArrives) {
  GetParam().run(3, [](std::unique_ptr<Transport> t) {
    meet(*t, 1);
    const int stale = -1, fresh = 100 + t->rank();
    const int next = (t->rank() + 1) % 3, before = (t->rank() + 2) % 3;
    for (int generation = 1; generation <= 3; ++generation) {
      int got = 0;
      if (t->rank() == 1) {
        t->send(next, kTestTag, bytes_of(stale));  // nobody receives it
        t->abort("rank 1 lost its way");
      } else {
        EXPECT_THROW(t->recv(t->rank(), kTestTag, room_of(got)), Error);
      }
      t->reconfigure(generation);
      t->send(next, kTestTag, bytes_of(fresh));
      t->recv(before, kTestTag, room_of(got));
      EXPECT_EQ(got, 100 + before);
      t->flush();
      meet(*t, 1);
    }
    t->flush();
  });
}

// One rank fails while others are in the next generation already: these wait for it in vain, and are told.
TEST_P(Transports, ARankThatStaysBehindEndsThoseThatHaveGoneOn) {
  const std::string text = failure_of(3, [](Transport& t) {
    int got = 0;
    meet(t, 1);
    if (t.rank() == 1) t.abort("rank 1 lost its way");
    if (t.rank() == 0) {
      EXPECT_THROW(t.recv(2, kTestTag, room_of(got)), Error);
      return;
    }
    EXPECT_THROW(t.recv(t.rank(), kTestTag, room_of(got)), Error);
    t.reconfigure(1);
  });
  EXPECT_NE(text.find("all ranks in generation 1"), std::string::npos) << text;
}

}  // namespace
}  // namespace tern
