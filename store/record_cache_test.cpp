#include "store/record_cache.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "base/error.h"
#include "base/rng.h"
#include "store/blocks_testing.h"

namespace tern {
namespace {

constexpr int kRecords = 50;
constexpr int64_t kPart = 48;

// Two tables of the same records: their two parts together, or in arrays of their own.
std::vector<RecordTable> bundled() { return {{kRecords, {{0, 128, 2 * kPart}}}, {kRecords, {{0, 8192, 2 * kPart}}}}; }
std::vector<RecordTable> apart() {
  return {{kRecords, {{0, 128, kPart}, {0, 4096, kPart}}}, {kRecords, {{0, 8192, kPart}, {0, 12288, kPart}}}};
}

struct RecordsInMemory {
  RecordsInMemory(BlockFiles& files, const std::vector<RecordTable>& tables, const RecordSettings& settings)
      : bytes(RecordCache::bytes_for(tables, settings, files.alignment())),
        memory(std::aligned_alloc(kTestBlock, static_cast<size_t>(bytes)), &std::free),
        cache(files, tables, settings, {static_cast<std::byte*>(memory.get()), static_cast<size_t>(bytes)}) {
    std::memset(memory.get(), 0xee, static_cast<size_t>(bytes));
  }
  int64_t bytes;
  std::unique_ptr<void, decltype(&std::free)> memory;
  RecordCache cache;
};

std::vector<int> random_records(uint64_t seed, double share) {
  std::vector<int> set;
  for (int r = 0; r < kRecords; ++r)
    if (random_uniform({seed, 3}, static_cast<uint64_t>(r)) < share) set.push_back(r);
  return set;
}

void expect_records(const RecordCache& cache, int table, std::span<const int> set, const std::vector<std::byte>& file) {
  for (const int r : set) {
    const std::byte* at = cache.record(table, r);
    for (const RecordParts& parts : cache.table(table).arrays) {
      ASSERT_EQ(0, std::memcmp(at, file.data() + parts.offset + r * parts.bytes, static_cast<size_t>(parts.bytes)))
          << r;
      at += parts.bytes;
    }
  }
}

TEST(RecordCache, HasTheFilesBytesInEitherLayoutAndBundlesHalveTheReads) {
  const std::vector<std::byte> file = patterned_file(16384);
  MemoryBlocks blocks({file});
  const RecordSettings settings{.window = {.uses = 3, .slots = kRecords}, .threads = 3};
  RecordsInMemory one(blocks, bundled(), settings), two(blocks, apart(), settings);
  for (uint64_t t = 0; t < 60; ++t) {
    const std::vector<int> set = random_records(t, 0.3);
    const int table = static_cast<int>(t % 2);
    for (RecordCache* cache : {&one.cache, &two.cache}) {
      cache->want(table, set);
      expect_records(*cache, table, set, file);
    }
  }
  const RecordCounts a = one.cache.counts(), b = two.cache.counts();
  EXPECT_GT(a.records.hits, 0);
  EXPECT_EQ(a.records.hits, b.records.hits);
  EXPECT_EQ(a.missed_bytes, (a.records.wanted - a.records.hits) * 2 * kPart);
  EXPECT_EQ(a.missed_bytes, b.missed_bytes);
  EXPECT_GT(a.reads, 0);
  EXPECT_EQ(2 * a.reads, b.reads);
}

TEST(RecordCache, NeighboursAreOneReadAndBlocksAreCounted) {
  const RecordTable t = apart()[0];
  const std::vector<int> missing = {0, 1, 2, 3, 4, 9, 11, 12};
  std::vector<std::pair<int, int>> runs;
  for (const RecordRead& r : reads_of(t, missing, 3)) {
    if (r.array == 0) runs.emplace_back(r.first, r.count);
    const RecordParts& parts = t.arrays[static_cast<size_t>(r.array)];
    EXPECT_EQ(r.extent, (Extent{0, parts.offset + r.first * kPart, r.count * kPart}));
  }
  EXPECT_EQ(runs, (std::vector<std::pair<int, int>>{{0, 3}, {3, 2}, {9, 1}, {11, 2}}));

  MemoryBlocks blocks({patterned_file(16384)});
  RecordsInMemory records(blocks, bundled(), {.window = {.uses = 1, .slots = kRecords}, .threads = 2});
  records.cache.want(0, missing);  // of 96 bytes, from 128 on, in blocks of 64
  const RecordCounts counts = records.cache.counts();
  EXPECT_EQ(counts.reads, 3);
  EXPECT_EQ(counts.missed_bytes, 8 * 96);
  EXPECT_EQ(counts.read_bytes, 512 + 128 + 256);  // 128 … 608, 992 … 1088, 1184 … 1376
}

TEST(RecordCache, AFailedReadIsToldAndTheTableIsReadAnew) {
  const std::vector<std::byte> file = patterned_file(16384);
  MemoryBlocks blocks({file});
  bool fails = false;
  FaultyBlocks faulty(blocks, [&](int64_t, int64_t wanted) { return fails ? -EIO : wanted; });
  RecordsInMemory records(faulty, bundled(), {.window = {.uses = 4, .slots = kRecords}, .threads = 2});
  const std::vector<int> first = random_records(1, 0.3), second = random_records(2, 0.3);
  records.cache.want(1, first);
  fails = true;
  EXPECT_THROW(records.cache.want(1, second), Error);
  fails = false;
  const int64_t missed = records.cache.counts().missed_bytes;
  records.cache.want(1, second);
  EXPECT_EQ(records.cache.counts().missed_bytes - missed, std::ssize(second) * 2 * kPart);
  expect_records(records.cache, 1, second, file);
}

TEST(RecordCache, RefusesASetLargerThanItsSlots) {
  MemoryBlocks blocks({patterned_file(16384)});
  RecordsInMemory records(blocks, bundled(), {.window = {.uses = 4, .slots = 3}, .threads = 1});
  EXPECT_THROW(records.cache.want(0, std::vector{1, 2, 3, 4}), Error);
}

}  // namespace
}  // namespace tern
