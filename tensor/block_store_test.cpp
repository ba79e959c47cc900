#include "tensor/block_store.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "kernels/kernel_testing.h"

namespace tern {
namespace {

constexpr size_t kMiB = size_t{1} << 20, kAll = SIZE_MAX / 2;

#if defined(__linux__) && !defined(__SANITIZE_ADDRESS__)

TEST(BlockStore, CutsBlocksFromWhatItKeptAndJoinsNeighbours) {
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

TEST(BlockStore, TakesTheSmallestStretchThatHoldsTheBlock) {
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

#endif

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
