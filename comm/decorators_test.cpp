#include "comm/decorators.h"

#include <gtest/gtest.h>

#include <array>

#include "base/error.h"
#include "comm/comm.h"
#include "comm/thread_world.h"

namespace tern {
namespace {

TEST(PacedTransport, AnAllReduceTakesItsBytesAtTheRateAndALatencyPerMessage) {
  constexpr int kRanks = 4;
  constexpr int64_t kCount = 100'003;
  constexpr double kRate = 25e6, kLatency = 1e-3;
  run_ranks(kRanks, {.baton = true}, [&](std::unique_ptr<Transport> inner) {
    VirtualClock clock;  // of this rank's link alone
    Comm comm(paced(std::move(inner), {.bytes_per_s = kRate, .latency_s = kLatency}, clock));
    Arena arena;
    Tensor t = arena.zeros(DType::f32, {kCount}, MemoryClass::workspace);
    comm.all_reduce_sum({&t, 1});
    const double want = static_cast<double>(all_reduce_bytes(kCount, 4, comm.rank(), kRanks).sent) / kRate +
                        2 * (kRanks - 1) * kLatency;
    EXPECT_NEAR(1e-9 * static_cast<double>(clock.now_ns()) / want, 1, 1e-6);
  });
}

// The text that names all ranks, one, or another one; links of 40 MB/s on the real clock.
TEST(PacedTransport, AText) {
  for (const auto& [text, slow] : std::vector<std::pair<std::string, std::array<bool, 2>>>{
           {"slow@*@40000000", {true, true}}, {"slow@1@40000000", {false, true}}, {"", {false, false}}}) {
    const std::array<bool, 2> is_slow = slow;
    const std::string words = text;
    run_ranks(2, {}, [&](std::unique_ptr<Transport> inner) {
      const std::unique_ptr<Transport> t = tern::with_fault(std::move(inner), words);
      const std::vector<std::byte> bytes(2'000'000);
      const int64_t begin = real_clock().now_ns();
      t->send(1 - t->rank(), 1, bytes);
      const double seconds = 1e-9 * static_cast<double>(real_clock().now_ns() - begin);
      if (is_slow[static_cast<size_t>(t->rank())]) { EXPECT_GE(seconds, 0.0499) << words; }
      std::vector<std::byte> got(bytes.size());
      t->recv(1 - t->rank(), 1, got);
      t->flush();
    });
  }
  run_ranks(1, {}, [](std::unique_ptr<Transport> inner) {
    EXPECT_THROW(tern::with_fault(std::move(inner), "slow@x@5"), Error);
  });
}

std::string with_fault(TransportFault fault, int faulty_rank, const ThreadWorldOptions& options = {}) {
  try {
    run_ranks(3, options, [&](std::unique_ptr<Transport> inner) {
      const int rank = inner->rank();
      if (rank == faulty_rank) inner = faulty(std::move(inner), fault);
      Comm comm(std::move(inner));
      Arena arena;
      for (int i = 0; i < 5; ++i) {
        Tensor t = arena.zeros(DType::i32, {100}, MemoryClass::workspace);
        comm.all_reduce_sum({&t, 1});
        for (const int32_t x : t.span<int32_t>()) EXPECT_EQ(x, 0) << "after " << i << " steps";
      }
    });
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::peer);
    return e.what();
  }
  return "no error";
}

TEST(FaultyTransport, AKillAtAnySendEndsAllRanksWithItsName) {
  for (const bool baton : {false, true})
    for (int64_t at = 0; at < 20; ++at) {
      const std::string text = with_fault({TransportFaultKind::kill, at}, 1, {.baton = baton});
      EXPECT_NE(text.find("rank 1: killed on purpose"), std::string::npos) << at << ": " << text;
    }
  EXPECT_EQ(with_fault({TransportFaultKind::kill, 20}, 1), "no error") << "a rank sends 4 times in each of 5 steps";
}

TEST(FaultyTransport, AHangIsSeenWithoutADeadlineWhereAllWait) {
  for (const bool baton : {false, true})
    for (int64_t at = 0; at < 20; at += 3) {
      const std::string text = with_fault({TransportFaultKind::hang, at}, 2, {.baton = baton});
      EXPECT_NE(text.find("deadlock"), std::string::npos) << text;
      EXPECT_NE(text.find("of rank 2"), std::string::npos) << text;
    }
}

TEST(FaultyTransport, ACorruptedMessageHasOneOtherBit) {
  run_ranks(2, {.baton = true}, [](std::unique_ptr<Transport> inner) {
    const int rank = inner->rank();
    if (rank == 0) inner = faulty(std::move(inner), {TransportFaultKind::corrupt, 0});
    Comm comm(std::move(inner));
    std::array<int64_t, 2> values{0, 0};
    comm.all_reduce(values, Combine::sum);
    EXPECT_EQ(values[0], 0);
    EXPECT_EQ(values[1], rank == 1 ? 1 : 0);
    values = {5, 6};
    comm.all_reduce(values, Combine::most);
    EXPECT_EQ(values, (std::array<int64_t, 2>{5, 6})) << "one message alone";
  });
}

// What TERN_FAULT says: any number of faults, each of the rank that it names.
TEST(FaultyTransport, AreReadFromAListAndWhatIsNoneIsQuoted) {
  run_ranks(2, {.baton = true}, [](std::unique_ptr<Transport> inner) {
    const int rank = inner->rank(), other = 1 - rank;
    inner = tern::with_fault(std::move(inner), "corrupt@0@1,corrupt@0@2@9,corrupt@1@0@131,slow@1@1000000000");
    const std::array<uint16_t, 4> sent{7, 7, 7, 7};
    for (size_t i = 0; i < 4; ++i)
      inner->send(other, tag_of(MessageKind::test, 1), std::as_bytes(std::span(sent).first(1)));
    std::array<uint16_t, 4> got{};
    for (size_t i = 0; i < 4; ++i)
      inner->recv(other, tag_of(MessageKind::test, 1), std::as_writable_bytes(std::span(got).subspan(i, 1)));
    inner->flush();
    EXPECT_EQ(got, rank == 1 ? (std::array<uint16_t, 4>{7, 7 ^ (1 << 8), 7 ^ (1 << 9), 7})
                             : (std::array<uint16_t, 4>{7 ^ (1 << 131 % 16), 7, 7, 7}));
  });
  for (const char* wrong :
       {"die", "die@1", "melt@0@1", "die@0@1@2", "corrupt@0@1@2@3", "corrupt@0@x", "stop@-1@2", "slow@1@9,stop@1"})
    try {
      run_ranks(1, {}, [&](std::unique_ptr<Transport> t) { tern::with_fault(std::move(t), wrong); });
      ADD_FAILURE() << wrong;
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::usage);
      EXPECT_NE(std::string(e.what()).find("TERN_FAULT="), std::string::npos) << e.what();
    }
  try {
    run_ranks(2, {.baton = true}, [](std::unique_ptr<Transport> t) { tern::with_fault(std::move(t), "die@7@100"); });
    ADD_FAILURE() << "a rank that is not there";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::usage);
    EXPECT_STREQ(e.what(), "TERN_FAULT=die@7@100: this run has no rank 7; its ranks are 0 to 1");
  }
}

}  // namespace
}  // namespace tern
