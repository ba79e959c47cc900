#include "comm/store.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <chrono>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "comm/process_world.h"
#include "comm/store_impl.h"

namespace tern {
namespace {

using std::chrono::milliseconds;
const HostPort kAnyPort{"127.0.0.1", 0};

std::string error_of(const std::function<void()>& f, ErrorKind kind) {
  try {
    f();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), kind) << e.what();
    return e.what();
  }
  return "no error";
}

TEST(Store, AKeyIsThereForWhoAskedBeforeAndAfter) {
  StoreServer server(kAnyPort, {.size = 2, .token = "t", .silence_s = 10});
  StoreClient a(server.address(), {.rank = 0, .size = 2, .token = "t", .silence_s = 10});
  StoreClient b(server.address(), {.rank = 1, .size = 2, .token = "t", .silence_s = 10});
  std::jthread later([&] {
    std::this_thread::sleep_for(milliseconds(50));
    b.set("key", "a value\n\0 with anything");
  });
  EXPECT_EQ(a.get("key", "the key"), "a value\n\0 with anything");
  EXPECT_EQ(b.get("key", "the key"), "a value\n\0 with anything");
}

TEST(Store, AKeyThatNobodySetsEndsTheWaitWithItsName) {
  StoreServer server(kAnyPort, {.size = 2, .token = "t", .silence_s = 0.1});
  StoreClient a(server.address(), {.rank = 0, .size = 2, .token = "t"});
  EXPECT_EQ(error_of([&] { a.get("links/0/1", "rank 1 to come"); }, ErrorKind::peer),
            "rank 0: waited 0.1 s (--comm-timeout) for rank 1 to come");
}

TEST(Store, AFailureReachesAllAndTheFirstOneCounts) {
  StoreServer server(kAnyPort, {.size = 3, .token = "t"});
  StoreClient a(server.address(), {.rank = 0, .size = 3, .token = "t"}),
      b(server.address(), {.rank = 1, .size = 3, .token = "t"});
  StoreClient late(server.address(), {.rank = 2, .size = 3, .token = "t"});
  b.abort("rank 1 failed: its disk is full");
  a.failed_within(5);
  a.abort("another reason");
  for (StoreClient* c : {&a, &b, &late}) {
    ASSERT_TRUE(c->failed_within(5));
    EXPECT_EQ(c->failure()->reason, "rank 1 failed: its disk is full");
    EXPECT_EQ(c->failure()->rank, 1);
  }
  EXPECT_EQ(error_of([&] { late.get("x", "a key"); }, ErrorKind::peer),
            "rank 2: rank 1 failed: its disk is full; rank 2 waited for a key");
}

TEST(Store, AClosedConnectionIsALostRankUnlessItHasLeft) {
  StoreServer server(kAnyPort, {.size = 3, .token = "t"});
  StoreClient a(server.address(), {.rank = 0, .size = 3, .token = "t"});
  std::make_unique<StoreClient>(server.address(), StoreRank{.rank = 1, .size = 3, .token = "t"}).reset();
  EXPECT_FALSE(a.failed_within(0.3));
  {
    std::string why;
    Descriptor d = connect_once(server.address(), 1, &why);
    std::string join = StoreFrame(StoreVerb::join).text("t").number(2).number(3).text(TERN_VERSION).bytes();
    ASSERT_TRUE(send_some(d, join));
    std::this_thread::sleep_for(milliseconds(50));
  }
  ASSERT_TRUE(a.failed_within(5));
  EXPECT_EQ(a.failure()->reason,
            "rank 2 was lost: its process ended and told the others nothing; what it wrote last may say why");
}

TEST(Store, ARankWithoutASignOfLifeIsLost) {
  StoreServer server(kAnyPort, {.size = 2, .token = "t", .silence_s = 0.3});
  StoreClient a(server.address(), {.rank = 0, .size = 2, .token = "t", .silence_s = 0.3});
  std::string why;
  Descriptor d = connect_once(server.address(), 1, &why);
  std::string join = StoreFrame(StoreVerb::join).text("t").number(1).number(2).text(TERN_VERSION).bytes();
  ASSERT_TRUE(send_some(d, join));
  ASSERT_TRUE(a.failed_within(2));
  EXPECT_EQ(a.failure()->reason, "rank 1 was lost: no sign of life for 0.3 s (--comm-timeout)");
}

// The network between has gone, or its machine: nothing comes, nothing is closed.
TEST(Store, AStoreWithoutASignOfLifeIsLostToo) {
  const Descriptor listener = listen_at(kAnyPort, 4);
  std::jthread silent([&] {  // welcomes a rank, and says no more
    ASSERT_TRUE(wait_readable(listener.get(), 5));
    const Descriptor d = accept_at(listener);
    std::string welcome = StoreFrame(StoreVerb::welcome).number(300).bytes();
    ASSERT_TRUE(send_some(d, welcome));
    std::this_thread::sleep_for(milliseconds(1500));
  });
  StoreClient a(own_address(listener), {.rank = 0, .size = 2, .token = "t"});
  ASSERT_TRUE(a.failed_within(1.2));
  EXPECT_NE(a.failure()->reason.find("no sign of life from the store at 127.0.0.1:"), std::string::npos);
}

// The connection is lost in the middle of what the rank says; why had come before.
TEST(Store, ALastWordIsHeardByWhoFindsTheConnectionLostWhileItSpeaks) {
  for (int i = 0; i < 20; ++i) {
    const Descriptor listener = listen_at(kAnyPort, 4);
    std::jthread last_word([&] {
      ASSERT_TRUE(wait_readable(listener.get(), 5));
      const Descriptor d = accept_at(listener);
      ASSERT_TRUE(wait_readable(d.get(), 5));  // what it says is not read: the end is a reset
      std::string said = StoreFrame(StoreVerb::welcome).number(2000).bytes() +
                         StoreFrame(StoreVerb::failed).number(0).number(1).number(1).text("wrong version").bytes();
      ASSERT_TRUE(send_some(d, said));
    });
    StoreClient a(own_address(listener), {.rank = 0, .size = 2, .token = "t"});
    last_word.join();
    EXPECT_EQ(error_of([&] { a.get("key", "a key"); }, ErrorKind::usage),
              "rank 0: wrong version; rank 0 waited for a key");
  }
}

TEST(Store, WhoDoesNotBelongIsToldWhyAndSoAreTheOthers) {
  const auto joins = [](int rank, int size) {
    StoreServer server(kAnyPort, {.size = 2, .token = "t"});
    StoreClient first(server.address(), {.rank = 0, .size = 2, .token = "t"});
    const std::string said =
        error_of([&] { StoreClient(server.address(), {.rank = rank, .size = size, .token = "t", .silence_s = 1}); },
                 ErrorKind::usage);
    EXPECT_TRUE(first.failed_within(5));
    EXPECT_EQ(said, fmt::format("rank {}: refused by the store at {}: {}", rank, text_of(server.address()),
                                first.failure()->reason));
    EXPECT_EQ(first.failure()->kind, ErrorKind::usage);
    return first.failure()->reason;
  };
  EXPECT_EQ(joins(1, 3), "rank 1 was started as one of 3 ranks, this run has 2");
  EXPECT_EQ(joins(0, 2), "two processes say that they are rank 0; another run needs a MASTER_PORT of its own");
  EXPECT_EQ(joins(2, 2), "rank 2 of 2 ranks");
}

// Whether its ranks are at work, or one of them has done its part and left.
TEST(Store, ANewcomerToAFullRunIsRefusedAloneAndTheRunGoesOn) {
  for (const bool one_has_left : {false, true}) {
    StoreServer server(kAnyPort, {.size = 2, .token = "t"});
    StoreClient first(server.address(), {.rank = 0, .size = 2, .token = "t"});
    auto second = std::make_unique<StoreClient>(server.address(), StoreRank{.rank = 1, .size = 2, .token = "t"});
    if (one_has_left) second.reset();
    for (const auto& claim : {std::pair{0, 2}, {1, 2}, {2, 3}})
      EXPECT_EQ(
          error_of(
              [&] {
                StoreClient(server.address(),
                            {.rank = claim.first, .size = claim.second, .token = "t", .silence_s = 1});
              },
              ErrorKind::usage),
          fmt::format("rank {}: refused by the store at {}: its run has all of its ranks (0 to 1) already; another run "
                      "needs a MASTER_PORT of its own",
                      claim.first, text_of(server.address())));
    EXPECT_FALSE(first.failed_within(0.2));
    first.set("key", "value");
    EXPECT_EQ(first.get("key", "the key"), "value");
  }
}

// Started by hand, one of them forgotten.
TEST(Store, WhoIsWaitedForIsToldOnceAfterTwoSeconds) {
  HostPort nowhere;
  { nowhere = StoreServer(kAnyPort, {}).address(); }
  StoreServer server(kAnyPort, {.size = 3, .token = "t", .silence_s = 2.5});
  std::vector<std::string> told[3];
  const auto waits = [&](int rank, const HostPort& at) {
    const StoreRank me{
        .rank = rank, .size = 3, .token = "t", .silence_s = 2.5, .tell_wait = [&, rank](const auto& what) {
          told[rank].push_back(what);
        }};
    error_of([&] { make_process_transport(std::make_shared<StoreClient>(at, me, 2), me); }, ErrorKind::peer);
  };
  {
    std::jthread a([&] { waits(0, server.address()); }), b([&] { waits(1, nowhere); });
  }
  ASSERT_EQ(told[0].size(), 1u);
  EXPECT_EQ(told[0][0], fmt::format("rank 0 waits at {} for rank 1, rank 2 to connect", text_of(server.address())));
  ASSERT_EQ(told[1].size(), 1u);
  EXPECT_EQ(told[1][0].find(fmt::format("rank 1 looks for the store, which rank 0 has, at {} or the 2 ports after it (",
                                        text_of(nowhere))),
            0u)
      << told[1][0];
}

TEST(Store, AMasterWhoseNameIsNotKnownIsNamed) {
  const std::string said = error_of(
      [] {
        StoreClient({"no.such.host.invalid", 29401}, {.rank = 0, .size = 2, .token = "t", .silence_s = 0.1});
      },
      ErrorKind::usage);
  EXPECT_NE(said.find("rank 0: 'no.such.host.invalid' is no name that this machine knows"), std::string::npos) << said;
  EXPECT_NE(said.find("is MASTER_ADDR right?"), std::string::npos) << said;
}

TEST(Store, AnotherVersionIsNamed) {
  StoreServer server(kAnyPort, {.size = 2, .token = "t"});
  std::string why;
  Descriptor d = connect_once(server.address(), 1, &why);
  std::string join = StoreFrame(StoreVerb::join).text("t").number(1).number(2).text("0.0.1").bytes();
  ASSERT_TRUE(send_some(d, join));
  StoreInput in;
  std::optional<StoreMessage> answer;
  while (!answer && wait_readable(d.get(), 5) && in.fill(d)) answer = in.next();
  ASSERT_TRUE(answer && answer->verb() == StoreVerb::refused);
  EXPECT_EQ(answer->text(), fmt::format("rank 1 is tern 0.0.1, this run's store is tern {}; start the same program "
                                        "everywhere",
                                        TERN_VERSION));
}

TEST(Store, WhoComesAfterARefusalIsAwaitedAndToldWhy) {
  auto server = std::make_unique<StoreServer>(kAnyPort, StoreConfig{.size = 3, .token = "t"});
  const HostPort at = server->address();
  StoreClient first(at, {.rank = 0, .size = 3, .token = "t"});
  error_of([&] { StoreClient(at, {.rank = 1, .size = 5, .token = "t"}); }, ErrorKind::usage);
  std::string told;
  {
    std::jthread late([&] {
      std::this_thread::sleep_for(milliseconds(200));
      try {
        StoreClient third(at, {.rank = 2, .size = 3, .token = "t", .silence_s = 1});
        if (third.failed_within(5)) told = third.failure()->reason;
      } catch (const Error& e) { told = e.what(); }
    });
    server->await_all(20);
    server.reset();
  }
  EXPECT_EQ(told, "rank 1 was started as one of 5 ranks, this run has 3");
}

// Ports that another run's store, or another program, has are passed over, on both sides.
TEST(Store, ATakenPortIsPassedOver) {
  StoreServer other(kAnyPort, {.size = 1, .token = "another run"});
  const HostPort at = other.address();
  StoreClient its_rank(at, {.rank = 0, .size = 1, .token = "another run"});
  StoreServer server(at, {.size = 1, .token = "t"}, 15);
  EXPECT_NE(server.address().port, at.port);
  StoreClient client(at, {.rank = 0, .size = 1, .token = "t"}, 15);
  client.set("a", "b");
  EXPECT_EQ(client.get("a", "a"), "b");
  EXPECT_EQ(error_of([&] { StoreServer(at, {.size = 1, .token = "t"}); }, ErrorKind::usage),
            fmt::format("store: port {} of 127.0.0.1 is taken; set MASTER_PORT to another one", at.port));
}

TEST(Store, WithoutAServerTheWaitEndsWithItsAddress) {
  HostPort at;
  { at = StoreServer(kAnyPort, {}).address(); }
  const std::string said =
      error_of([&] { StoreClient(at, {.rank = 3, .size = 4, .token = "t", .silence_s = 0.2}); }, ErrorKind::peer);
  EXPECT_NE(said.find(fmt::format("rank 3: no store of this run at 127.0.0.1:{} within 0.2 s", at.port)),
            std::string::npos)
      << said;
}

// Whatever bytes arrive: the server lives on and serves the others.
TEST(Store, StrangersDoNotDisturb) {
  StoreServer server(kAnyPort, {.size = 1, .token = "t"});
  StoreClient client(server.address(), {.rank = 0, .size = 1, .token = "t"});
  uint64_t state = 7;
  for (int i = 0; i < 200; ++i) {
    std::string why, bytes;
    Descriptor d = connect_once(server.address(), 1, &why);
    const size_t length = i % 40;
    for (size_t b = 0; b < length; ++b)
      state = state * 6364136223846793005 + 1, bytes += static_cast<char>(state >> 56);
    if (i % 3 == 0) bytes = StoreFrame(StoreVerb::join).bytes() + bytes;
    if (i % 3 == 1) bytes = StoreFrame(StoreVerb::set).text("a").text("stranger").bytes();
    send_some(d, bytes);
  }
  client.set("a", "b");
  EXPECT_EQ(client.get("a", "a"), "b");
  EXPECT_FALSE(client.failure());
}

TEST(HostPort, IsReadOrRefusedByItsText) {
  EXPECT_EQ(parse_host_port("node1:29401").host, "node1");
  EXPECT_EQ(parse_host_port("[::1]:80").host, "::1");
  EXPECT_EQ(text_of(parse_host_port("[::1]:80")), "[::1]:80");
  for (const char* wrong : {"", "node1", "node1:", ":80", "node1:0", "node1:65536", "node1:80x", "node1:-1"})
    EXPECT_NE(error_of([&] { parse_host_port(wrong); }, ErrorKind::usage).find("expected HOST:PORT"),
              std::string::npos);
}

}  // namespace
}  // namespace tern
