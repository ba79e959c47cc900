#include "comm/process_world.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/rng.h"
#include "comm/link.h"
#include "comm/ranks_testing.h"

namespace tern {
namespace {

constexpr uint64_t kGatherTag = tag_of(MessageKind::all_gather, 17);

// Two ends of a connection of this process.
std::pair<Descriptor, Descriptor> connected() {
  int ends[2];
  TERN_CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0, "socketpair");
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

// What the receiver of a message of `length` says when `change` has been at the bytes on the wire.
std::string received_after(size_t length, const std::function<void(std::vector<std::byte>&)>& change) {
  auto [a, middle] = connected();
  auto [relay, b] = connected();
  Link sender(std::move(a), 3), receiver(std::move(b), 3);
  std::vector<std::byte> message(length, std::byte{0x5a}), wire(length + sizeof(MessageHeader)), room(length);
  sender.post(kGatherTag, message);
  EXPECT_TRUE(sender.send_some() && sender.all_sent());
  EXPECT_EQ(::read(middle.get(), wire.data(), wire.size()), static_cast<ssize_t>(wire.size()));
  change(wire);
  EXPECT_EQ(::write(relay.get(), wire.data(), wire.size()), static_cast<ssize_t>(wire.size()));
  EXPECT_TRUE(receiver.read_header());
  if (!receiver.corruption().empty()) return receiver.corruption();
  EXPECT_TRUE(receiver.read_payload(room));
  EXPECT_TRUE(!receiver.corruption().empty() || room == message);
  return receiver.corruption();
}

TEST(Link, EveryOneOfFiveHundredFlippedBitsIsFound) {
  EXPECT_EQ(received_after(1000, [](std::vector<std::byte>&) {}), "");
  for (uint64_t i = 0; i < 500; ++i) {
    const std::string said = received_after(1 + i * 7 % 3000, [i](std::vector<std::byte>& wire) {
      const size_t payload_bits = 8 * (wire.size() - sizeof(MessageHeader));
      const size_t bit = 8 * sizeof(MessageHeader) + static_cast<size_t>(random_uniform({1, 2}, i) * payload_bits);
      wire[bit / 8] ^= std::byte{1} << bit % 8;
    });
    EXPECT_NE(said.find("all-gather 17 of"), std::string::npos) << i << ": " << said;
    EXPECT_NE(said.find("was changed on its way"), std::string::npos) << i << ": " << said;
  }
  for (size_t bit = 0; bit < 8 * sizeof(MessageHeader); ++bit)
    EXPECT_NE(received_after(10, [bit](auto& wire) { wire[bit / 8] ^= std::byte{1} << bit % 8; }), "") << bit;
}

// For a ledger, which says later what was changed.
TEST(Link, APayloadIsTakenAsItComesWhereThatIsAskedFor) {
  auto [a, middle] = connected();
  auto [relay, b] = connected();
  Link sender(std::move(a), 3), receiver(std::move(b), 3);
  std::array<std::byte, 4> message{}, room{};
  std::array<std::byte, sizeof(MessageHeader) + 4> wire{};
  sender.post(kGatherTag, message);
  EXPECT_TRUE(sender.send_some());
  EXPECT_EQ(::read(middle.get(), wire.data(), wire.size()), static_cast<ssize_t>(wire.size()));
  wire.back() ^= std::byte{1};
  EXPECT_EQ(::write(relay.get(), wire.data(), wire.size()), static_cast<ssize_t>(wire.size()));
  EXPECT_TRUE(receiver.read_header() && receiver.read_payload(room, true));
  EXPECT_EQ(receiver.corruption(), "");
  EXPECT_EQ(room[3], std::byte{1});
}

TEST(Link, AMessageLostOrRepeatedIsFound) {
  auto [a, b] = connected();
  auto [c, d] = connected();
  Link first(std::move(a), 0), again(std::move(c), 0), receiver(std::move(b), 0);
  const std::array<std::byte, 4> bytes{};
  std::array<std::byte, 4> room{};
  first.post(kGatherTag, bytes), first.post(kGatherTag, bytes);
  EXPECT_TRUE(first.send_some());
  EXPECT_TRUE(receiver.read_header() && receiver.read_payload(room) && receiver.read_header());
  EXPECT_EQ(receiver.corruption(), "");
  Link late(std::move(d), 0);
  again.post(kGatherTag, bytes), again.post(kGatherTag, bytes), again.send_some();
  std::array<std::byte, sizeof(MessageHeader) + 4> dropped{};
  ASSERT_EQ(::read(late.descriptor(), dropped.data(), dropped.size()), static_cast<ssize_t>(dropped.size()));
  EXPECT_TRUE(late.read_header());
  EXPECT_NE(late.corruption().find("number 1 of generation 0, expected number 0"), std::string::npos)
      << late.corruption();
}

std::string failure_of(int ranks, double silence_s, const std::function<void(Transport&)>& work) {
  try {
    run_socket_ranks(ranks, silence_s, [&](std::unique_ptr<Transport> t) { work(*t); });
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::peer);
    return e.what();
  }
  return "no error";
}

TEST(ProcessWorld, ThatAllWaitIsToldWithWhoWaitsForWhom) {
  const std::string text = failure_of(3, 0.3, [](Transport& t) {
    std::byte x{};
    t.recv((t.rank() + 1) % 3, tag_of(MessageKind::all_gather, 4), {&x, 1});
  });
  EXPECT_NE(text.find("nothing has moved for 0.3 s (--comm-timeout)"), std::string::npos) << text;
  EXPECT_NE(text.find("rank 2 waits for all-gather 4 of rank 0"), std::string::npos) << text;
}

TEST(ProcessWorld, WhoComputesForLongIsWaitedForAsLongAsItLives) {
  EXPECT_EQ(failure_of(2, 0.2,
                       [](Transport& t) {
                         std::byte x{};
                         if (t.rank() == 1) return t.recv(0, kGatherTag, {&x, 1});
                         std::this_thread::sleep_for(std::chrono::milliseconds(700));
                         t.send(1, kGatherTag, {&x, 1});
                         t.flush();
                       }),
            "no error");
}

TEST(ProcessWorld, ARankThatEndsTooEarlyIsNamed) {
  const std::string text = failure_of(2, 5, [](Transport& t) {
    std::byte x{};
    if (t.rank() == 0) t.recv(1, kGatherTag, {&x, 1});
  });
  EXPECT_NE(text.find("rank 0: the connection to rank 1 was closed"), std::string::npos) << text;
}

}  // namespace
}  // namespace tern
