#include "tensor/block_store.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/pages.h"
#include "kernels/kernel_testing.h"

namespace tern {
namespace {

constexpr size_t kMiB = size_t{1} << 20, kAll = SIZE_MAX / 2;

/// Whether the mapping that begins at or before `at` has asked for huge pages; true where the system has none.
bool asks_for_huge_pages(const void* at) {
  std::ifstream maps("/proc/self/smaps");
  const auto place = reinterpret_cast<uintptr_t>(at);
  bool inside = false, any = false;
  for (std::string line; std::getline(maps, line);) {
    uintptr_t begin = 0, end = 0;
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " ", &begin, &end) == 2)
      inside = begin <= place && place < end;
    else if (line.starts_with("VmFlags:")) {
      any = true;
      if (inside) return line.find(" hg") != std::string::npos;
    }
  }
  return !any;
}

/// Bytes of address space that this process has.
size_t address_space() {
  size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

/// Tests of what is kept, where something is.
class KeptBlocks : public testing::Test {
 protected:
  void SetUp() override {
    if (!BlockStore::keeps(kMiB)) GTEST_SKIP() << "nothing is kept under a sanitizer";
  }
};

TEST_F(KeptBlocks, CutsBlocksFromWhatItKeptAndJoinsNeighbours) {
  BlockStore store;
  auto* const whole = static_cast<char*>(store.take(8 * kMiB, 0));
  store.give(whole, 8 * kMiB, kAll);
  EXPECT_EQ(store.kept_bytes(), 8 * kMiB);
  void* const first = store.take(3 * kMiB, 0);
  void* const second = store.take(kMiB, 0);
  void* const third = store.take(4 * kMiB, 0);
  EXPECT_EQ(first, whole);
  EXPECT_EQ(second, whole + 3 * kMiB);
  EXPECT_EQ(third, whole + 4 * kMiB);
  EXPECT_EQ(store.kept_bytes(), 0U);
  store.give(first, 3 * kMiB, kAll);
  store.give(third, 4 * kMiB, kAll);
  store.give(second, kMiB, kAll);
  EXPECT_EQ(store.take(8 * kMiB, 0), whole);
  store.give(whole, 8 * kMiB, 0);
}

TEST_F(KeptBlocks, TakesTheSmallestStretchThatHoldsTheBlock) {
  BlockStore store;
  auto* const whole = static_cast<char*>(store.take(12 * kMiB, 0));  // kept: 5 MiB at 0, 2 MiB at 6, 4 MiB at 8
  store.give(whole, 5 * kMiB, kAll);
  store.give(whole + 6 * kMiB, kMiB, kAll);
  store.give(whole + 8 * kMiB, 4 * kMiB, kAll);
  EXPECT_EQ(store.take(4 * kMiB, 0), whole + 8 * kMiB);
  EXPECT_EQ(store.take(kMiB, 0), whole + 6 * kMiB);
  EXPECT_EQ(store.take(kMiB, 0), whole);
  for (const size_t at : {0, 5, 6, 7, 8, 9, 10, 11})
    if (at != 1) store.give(whole + at * kMiB, kMiB, kAll);
}

// Kernels for aarch64 may have pages of 64 KiB: munmap takes them whole, so a block cut at 4 KiB would take a living
// neighbour's bytes with it, or be refused.
TEST_F(KeptBlocks, AreCutAtWholePagesOfTheSystem) {
  constexpr size_t kPage = size_t{64} << 10;
  BlockStore store(kPage);
  auto* const whole = static_cast<char*>(store.take(4 * kMiB, 0));
  store.give(whole, 4 * kMiB, kAll);
  const size_t odd = 2 * kPage + 4096;  // three pages
  auto* const first = static_cast<char*>(store.take(odd, 0));
  auto* const second = static_cast<char*>(store.take(odd, 0));
  EXPECT_EQ(first, whole);
  EXPECT_EQ(second, whole + 3 * kPage);
  EXPECT_EQ(store.kept_bytes(), 4 * kMiB - 6 * kPage);
  store.give(first, odd, kMiB + 4096);  // keeps at most 17 pages
  EXPECT_EQ(store.kept_bytes() % kPage, 0U);
  std::memset(second, 1, odd);
  store.give(second, odd, 0);
}

/// Page faults of this thread that needed no disk.
int64_t page_faults() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_minflt;
}

/// Whether the system moves pages of several mappings at once: Linux does from 6.17 on.
bool moves_several_mappings() {
  const size_t page = page_bytes();
  auto* const from = static_cast<char*>(map_pages(2 * page));
  void* const to = map_pages(2 * page);
  return ::mprotect(from + page, page, PROT_READ) == 0 && move_pages(from, 2 * page, to);
}

// Kept in three places, none large enough: no page is cleared anew.
TEST_F(KeptBlocks, AreJoinedWhereNoStretchHoldsTheBlock) {
  constexpr size_t kEach = kMiB / 2;
  BlockStore store;
  auto* const whole = static_cast<char*>(store.take(6 * kEach, 0));
  std::memset(whole, 1, 6 * kEach);
  for (const size_t i : {0, 2, 4}) store.give(whole + i * kEach, kEach, kAll);
  const size_t size = 2 * kEach + kEach / 2;
  auto* const joined = static_cast<char*>(store.take(size, 0));
  const int64_t before = page_faults();
  std::memset(joined, 2, size);
  EXPECT_LE(page_faults() - before, 4);
  EXPECT_EQ(store.kept_bytes(), kEach / 2);
  for (const size_t i : {1, 3, 5})
    for (size_t j = 0; j < kEach; j += 512) ASSERT_EQ(whole[i * kEach + j], 1) << "a living block, at " << j;
  store.give(joined, size, kAll);
  EXPECT_EQ(store.kept_bytes(), 3 * kEach);
  auto* const again = static_cast<char*>(store.take(size, 0));  // in one piece now
  EXPECT_EQ(again, joined);
  if (!moves_several_mappings()) return store.give(again, size, 0);
  store.give(again, size - kEach, kAll);  // with what was kept: one and a half pieces of five
  store.give(again + size - kEach, kEach, kAll);
  auto* const longer = static_cast<char*>(store.take(3 * kEach + kEach / 2, 0));
  EXPECT_EQ(store.kept_bytes(), 0U);
  const int64_t then = page_faults();
  std::memset(longer, 3, 3 * kEach + kEach / 2);
  EXPECT_LE(page_faults() - then, static_cast<int64_t>(kEach / 2 / page_bytes()) + 4);  // what is new
  store.give(longer, 3 * kEach + kEach / 2, 0);
  for (const size_t i : {1, 3, 5}) store.give(whole + i * kEach, kEach, 0);
}

TEST_F(KeptBlocks, GoBackWhenWhatRemainsIsTooMuch) {
  constexpr size_t kPage = size_t{64} << 10;
  BlockStore store(kPage);
  auto* const whole = static_cast<char*>(store.take(4 * kMiB, 0));
  store.give(whole, 4 * kMiB, kAll);
  auto* const larger = static_cast<char*>(store.take(5 * kMiB, kMiB + 4096));  // held by no stretch
  EXPECT_LE(store.kept_bytes(), kMiB + 4096);
  EXPECT_EQ(store.kept_bytes() % kPage, 0U);
  store.give(larger, 5 * kMiB, 0);
}

// A page too much is one page that goes back, not the block.
TEST_F(KeptBlocks, AreKeptInPartWhereTheWholeIsTooMuch) {
  const size_t page = page_bytes();
  BlockStore store;
  void* const block = store.take(kMiB, 0);
  std::memset(block, 1, kMiB);
  store.give(block, kMiB, kMiB - 1);
  EXPECT_EQ(store.kept_bytes(), kMiB - page);
  void* const again = store.take(kMiB - page, 0);
  EXPECT_EQ(again, block);
  store.give(again, kMiB - page, 0);
  EXPECT_EQ(store.kept_bytes(), 0U);
}

// One fault instead of 512: a large block starts on a huge page and asks for such.
TEST_F(KeptBlocks, LargeOnesStartOnAHugePageAndAskForSuch) {
  constexpr size_t kHuge = 2 * kMiB;
  BlockStore store;
  std::vector<std::pair<void*, size_t>> blocks;
  for (const size_t size : {kHuge, kHuge + 64, 3 * kMiB, 2 * kHuge + 4096, 9 * kMiB}) {
    blocks.emplace_back(store.take(size, 0), size);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(blocks.back().first) % kHuge, 0U) << size;
    EXPECT_TRUE(asks_for_huge_pages(blocks.back().first)) << size;
  }
  for (const auto& [at, size] : blocks) store.give(at, size, 0);
}

// Address space that is kept may be what is missing.
TEST_F(KeptBlocks, AreDroppedWhereTheSystemHasNoMore) {
  EXPECT_EXIT(
      {
        BlockStore store;
        constexpr size_t kSize = size_t{256} << 20;
        void* const kept = store.take(kSize, 0);
        store.give(kept, kSize, kAll);
        rlimit limit{};
        getrlimit(RLIMIT_AS, &limit);
        limit.rlim_cur = address_space() + kSize / 2;
        setrlimit(RLIMIT_AS, &limit);
        std::_Exit(store.take(kSize + 4096, kAll) && store.kept_bytes() == 0 ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

// As a step of training takes and gives back: no two blocks overlap, and no more is kept than may be.
TEST(BlockStore, RandomBlocksNeverOverlapAndLittleEnoughIsKept) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE("TERN_TEST_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  struct Block {
    unsigned char* at;
    size_t size;
    unsigned char mark;
  };
  std::vector<Block> blocks;
  BlockStore store;
  size_t in_use = 0, highest = 0;
  const auto give = [&](size_t i) {
    const Block b = blocks[i];
    for (size_t j = 0; j < b.size; j += 61) ASSERT_EQ(b.at[j], b.mark) << "of " << b.size << " bytes, at " << j;
    ASSERT_EQ(b.at[b.size - 1], b.mark);
    in_use -= b.size;
    store.give(b.at, b.size, highest - in_use);
    EXPECT_LE(store.kept_bytes(), highest - in_use);
    blocks[i] = blocks.back();
    blocks.pop_back();
  };
  for (int i = 0; i < 3000; ++i) {
    if (blocks.size() > 24 || (!blocks.empty() && random() % 2)) give(random() % blocks.size());
    const size_t size = 64 * (1 + random() % (size_t{1} << random() % 15));  // 64 bytes to a MiB
    in_use += size;
    highest = std::max(highest, in_use);
    auto* const at = static_cast<unsigned char*>(store.take(size, highest - in_use));
    ASSERT_NE(at, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(at) % 64, 0U);
    blocks.push_back({at, size, static_cast<unsigned char>(i)});
    std::memset(at, static_cast<unsigned char>(i), size);
  }
  while (!blocks.empty()) give(blocks.size() - 1);
}

}  // namespace
}  // namespace tern
