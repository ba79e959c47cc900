// Messages by MPI: MpiRanks*.* are what each process does that mpirun has started; MpiWorld*.* start them. Skipped where there is no MPI.
#include "comm/mpi_world.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "comm/collective_cases_testing.h"
#include "comm/launched_rank.h"
#include "comm/ranks_testing.h"

namespace tern {
namespace {

std::map<std::string, std::string> variables_of_mpirun() {
  std::map<std::string, std::string> found;
  for (char** v = ::environ; *v; ++v)
    if (const std::string text = *v; text.starts_with("OMPI_COMM_WORLD_") || text.starts_with("PMIX_NAMESPACE="))
      found[text.substr(0, text.find('='))] = text.substr(text.find('=') + 1);
  return found;
}

// This process as a rank, with the store in rank 0.
class MpiRanks : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    const std::optional<LaunchedRank> launched = launched_rank_of(variables_of_mpirun());
    if (!launched || launched->size == 1) return;
    if (launched->serves_store)
      server = std::make_unique<StoreServer>(
          HostPort{"127.0.0.1", launched->store.port},
          StoreConfig{.size = launched->size, .token = launched->token, .silence_s = 20}, launched->more_ports);
    const StoreRank me{.rank = launched->rank, .size = launched->size, .token = launched->token, .silence_s = 20};
    comm = std::make_unique<Comm>(
        make_mpi_transport(std::make_shared<StoreClient>(launched->store, me, launched->more_ports), me));
  }
  static void TearDownTestSuite() {
    if (comm) comm->barrier();
    comm.reset(), server.reset();
  }
  void SetUp() override {
    if (!comm) GTEST_SKIP() << "mpirun starts this test's processes";
  }
  static inline std::unique_ptr<StoreServer> server;
  static inline std::unique_ptr<Comm> comm;
};

TEST_F(MpiRanks, EveryCollectiveHasTheBitsOfThreadsAndTheBytesOfItsClosedForm) {
  std::vector<Seen> want;
  with_comms(comm->size(), {.baton = true}, [&](Comm& of_threads) {
    std::vector<Seen> all = all_cases(of_threads);
    if (of_threads.rank() == comm->rank()) want = std::move(all);
  });
  const std::vector<Seen> got = all_cases(*comm);
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(got[i] == want[i]) << "case " << i;
}

class MpiRanksSlow : public MpiRanks {};
TEST_F(MpiRanksSlow, SixtyFourMebibytesOfEveryType) { expect_large_sums(*comm); }

// 64 MiB: longer than any buffer, while both ends send.
TEST_F(MpiRanks, ALongSumPasses) {
  Arena arena;
  const Tensor t = arena.zeros(DType::u8, {(int64_t{64} << 20) + 1}, MemoryClass::workspace);
  auto* x = static_cast<uint8_t*>(t.data());
  std::fill(x, x + t.count(), static_cast<uint8_t>(comm->rank() + 1));
  comm->all_reduce_sum({&t, 1});
  const auto sum = static_cast<uint8_t>(comm->size() * (comm->size() + 1) / 2);
  EXPECT_TRUE(std::all_of(x, x + t.count(), [&](uint8_t b) { return b == sum; }));
}

TEST_F(MpiRanks, MessagesOfAPairKeepTheirOrderAndAnyTellsWhoItWas) {
  Transport& t = comm->transport();
  constexpr uint64_t kOrderTag = tag_of(MessageKind::test, 1);
  std::vector<int> out(300);
  for (size_t i = 0; i < 300; ++i) out[i] = 1000 * t.rank() + static_cast<int>(i);
  if (t.rank() > 0) {
    for (const int& x : out) t.send(0, kOrderTag, std::as_bytes(std::span(&x, 1)));
    t.flush();
    return;
  }
  std::vector<int> from, next(static_cast<size_t>(t.size()));
  for (int r = 1; r < t.size(); ++r) from.push_back(r);
  while (!from.empty()) {
    int got = -1;
    const int who = t.recv_any(from, kOrderTag, std::as_writable_bytes(std::span(&got, 1)));
    ASSERT_EQ(got, 1000 * who + next[static_cast<size_t>(who)]++);
    if (next[static_cast<size_t>(who)] == 300) std::erase(from, who);
  }
}

// The last one: after a failure all go on in a new generation, and nothing stale arrives.
TEST_F(MpiRanks, WorkInANewGenerationAfterAFailure) {
  Transport& t = comm->transport();
  const int stale = -1, fresh = 100 + t.rank(), next = (t.rank() + 1) % t.size(),
            before = (t.rank() + t.size() - 1) % t.size();
  constexpr uint64_t kFreshTag = tag_of(MessageKind::test, 2);
  for (int generation = 1; generation <= 3; ++generation) {
    int got = 0;
    if (t.rank() == 1) {
      comm->barrier();
      t.send(next, kFreshTag, std::as_bytes(std::span(&stale, 1)));  // nobody receives it
      t.abort("rank 1 lost its way");
    } else {
      // The word that rank 1 gave up may come before its last message of the barrier.
      const auto waits = [&] {
        comm->barrier();
        t.recv(t.rank(), kFreshTag, std::as_writable_bytes(std::span(&got, 1)));
      };
      EXPECT_THROW(waits(), Error);
    }
    t.reconfigure(generation);
    t.send(next, kFreshTag, std::as_bytes(std::span(&fresh, 1)));
    t.recv(before, kFreshTag, std::as_writable_bytes(std::span(&got, 1)));
    EXPECT_EQ(got, 100 + before);
    t.flush();
  }
}

int run_by_mpirun(int ranks, const char* tests) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  const std::string command = fmt::format(
      "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun --oversubscribe -n {} '{}' "
      "--gtest_filter='{}' >&2",
      ranks, self, tests);
  return WEXITSTATUS(std::system(command.c_str()));
}

std::string why_no_mpirun() {
  if (const std::string why = why_no_mpi(); !why.empty()) return why;
  return std::system("command -v mpirun >/dev/null") == 0 ? "" : "no mpirun (Debian: openmpi-bin)";
}

TEST(MpiWorld, ConformsOnTwoToFourRanks) {
  if (const std::string why = why_no_mpirun(); !why.empty()) GTEST_SKIP() << why;
  for (const int ranks : {2, 3, 4}) EXPECT_EQ(run_by_mpirun(ranks, "MpiRanks.*"), 0) << ranks << " ranks";
}

TEST(MpiWorldSlow, SumsSixtyFourMebibytesOfEveryTypeOnTwoRanks) {
  if (const std::string why = why_no_mpirun(); !why.empty()) GTEST_SKIP() << why;
  EXPECT_EQ(run_by_mpirun(2, "MpiRanksSlow.*"), 0);
}

}  // namespace
}  // namespace tern
