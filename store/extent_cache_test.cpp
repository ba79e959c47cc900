#include "store/extent_cache.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <set>

#include "base/error.h"
#include "base/rng.h"
#include "store/blocks_testing.h"

namespace tern {
namespace {

struct Cache {
  Cache(BlockFiles& files, const std::vector<CacheItem>& items, const CacheSettings& settings, int threads)
      : bytes(ExtentCache::bytes_for(items, settings.slots, files.alignment())),
        memory(std::aligned_alloc(kTestBlock, static_cast<size_t>(bytes)), &std::free),
        cache(files, items, settings, threads, {static_cast<std::byte*>(memory.get()), static_cast<size_t>(bytes)}) {}
  int64_t bytes;
  std::unique_ptr<void, decltype(&std::free)> memory;
  ExtentCache cache;
};

// Item i of group i % 2 has two extents of unlike sizes.
std::vector<CacheItem> some_items(int count) {
  std::vector<CacheItem> items;
  for (int i = 0; i < count; ++i) items.push_back({{{0, 211 * i, 37 + 5 * i}, {0, 9000 + 97 * i, 41}}, i % 2});
  return items;
}

// Some of the items in an order of their own.
std::vector<int> some_list(int items, int count, uint64_t seed) {
  std::vector<int> list(static_cast<size_t>(items));
  std::iota(list.begin(), list.end(), 0);
  for (size_t i = 0; i < list.size(); ++i) std::swap(list[i], list[i + random_u64({seed, 1}, i) % (list.size() - i)]);
  list.resize(static_cast<size_t>(count));
  return list;
}

std::vector<int> groups_of(const std::vector<CacheItem>& items) {
  std::vector<int> groups;
  for (const CacheItem& item : items) groups.push_back(item.group);
  return groups;
}

void use_all(ExtentCache& cache, const std::vector<CacheItem>& items, const std::vector<std::byte>& file,
             std::span<const int> list) {
  for (const int item : list) {
    for (size_t e = 0; e < 2; ++e) {
      const ExtentLease lease(cache, cache.first_place(item) + static_cast<int>(e));
      const Extent& extent = items[static_cast<size_t>(item)].extents[e];
      const auto bytes = lease.bytes();
      ASSERT_EQ(static_cast<int64_t>(bytes.size()), extent.bytes);
      ASSERT_TRUE(std::equal(bytes.begin(), bytes.end(), file.begin() + extent.offset)) << item << ", extent " << e;
    }
  }
}

// Over slots, threads, policies and lists of any length: each item's own bytes; what is read is what decisions alone say.
TEST(ExtentCache, GivesEachItemItsBytesAndReadsWhatIsSaid) {
  const std::vector<std::byte> file = patterned_file(12'000);
  MemoryBlocks files({file}, kTestBlock);
  const std::vector<CacheItem> items = some_items(20);
  for (const auto& slots : {std::vector<int>{1, 1}, {2, 3}, {5, 2}, {10, 10}})
    for (const int threads : {1, 3})
      for (const CachePolicy policy : {CachePolicy::score, CachePolicy::lru}) {
        const CacheSettings settings{.slots = slots, .policy = policy};
        Cache c(files, items, settings, threads);
        CacheDecisions said(groups_of(items), settings);
        int64_t missed = 0;
        for (uint64_t turn = 0; turn < 60; ++turn) {
          SCOPED_TRACE(fmt::format("{} and {} slots, {} threads, {}, list {}", slots[0], slots[1], threads,
                                   name_of(policy), turn));
          const std::vector<int> list = some_list(20, 1 + static_cast<int>(turn * 7 % 20), turn);
          for (const int item : list) {
            const double share = random_uniform({turn, 9}, static_cast<uint64_t>(item));
            c.cache.see(item, share), said.see(item, share);
          }
          for (const PlannedRead& read : said.want(list))
            for (const Extent& e : items[static_cast<size_t>(list[static_cast<size_t>(read.place)])].extents)
              missed += e.bytes;
          c.cache.want(list);
          use_all(c.cache, items, file, list);
        }
        const CacheCounts counts = c.cache.counts();
        EXPECT_EQ(counts.missed_bytes, missed);
        EXPECT_EQ(counts.items.hits, said.hits().hits);
        EXPECT_GE(counts.read_bytes, missed);
        EXPECT_GT(counts.items.hits, 0);
        if (slots[0] == 10) { EXPECT_EQ(counts.items.wanted - counts.items.hits, 20) << "each is read once"; }
      }
}

// A list that is given up in the middle leaves nothing wrong behind, and a failed read is tried again by the next list.
TEST(ExtentCache, WhatFailedOrWasDroppedIsReadAgain) {
  const std::vector<std::byte> file = patterned_file(12'000);
  MemoryBlocks memory({file}, kTestBlock);
  FaultyBlocks files(memory, [](int64_t k, int64_t wanted) { return k % 7 == 3 ? -EIO : wanted; });
  const std::vector<CacheItem> items = some_items(20);
  Cache c(files, items, {.slots = {3, 3}}, 2);
  int failed = 0;
  for (uint64_t turn = 0; turn < 200; ++turn) {
    const std::vector<int> list = some_list(20, 1 + static_cast<int>(turn % 9), turn);
    c.cache.want(list);
    try {
      use_all(c.cache, items, file, turn % 5 == 0 ? std::span(list).first(list.size() / 2) : std::span(list));
    } catch (const Error& error) {
      ++failed;
      EXPECT_NE(std::string(error.what()).find("weights.bin"), std::string::npos) << error.what();
    }
  }
  EXPECT_GT(failed, 10);
}

// Against brute force: an item is read at most once for a list, hits were there, no slot has two items.
TEST(CacheDecisions, NoListReadsAnItemTwiceAndEveryReadHasAFreeSlot) {
  for (const int slots : {1, 2, 3, 5, 8}) {
    CacheDecisions decisions(std::vector<int>(12, 0), {.slots = {slots}});
    std::vector<int> in_slot(static_cast<size_t>(slots), -1);
    for (uint64_t turn = 0; turn < 300; ++turn) {
      const std::vector<int> list = some_list(12, 1 + static_cast<int>(random_u64({turn, 3}, 0) % 12), turn);
      std::set<int> read_places;
      const auto reads = decisions.want(list);
      size_t r = 0;
      for (size_t p = 0; p < list.size(); ++p) {
        if (r < reads.size() && reads[r].place == static_cast<int>(p)) {
          int& item = in_slot[static_cast<size_t>(reads[r].slot)];
          const auto stands = std::find(list.begin(), list.begin() + static_cast<ptrdiff_t>(p), item);
          const int before =
              stands == list.begin() + static_cast<ptrdiff_t>(p) ? -1 : static_cast<int>(stands - list.begin());
          EXPECT_EQ(reads[r].after, before) << "a read waits for the use of what it writes over";
          item = list[p];
          EXPECT_TRUE(read_places.insert(list[p]).second);
          ++r;
        }
        EXPECT_EQ(std::count(in_slot.begin(), in_slot.end(), list[p]), 1) << "it is there when it is used";
      }
      EXPECT_EQ(r, reads.size());
    }
  }
}

TEST(CacheDecisions, TheLeastScoreGoesAndOfEqualOnesTheOldest) {
  CacheDecisions by_score({0, 0, 0, 0}, {.slots = {2}});
  CacheDecisions by_age({0, 0, 0, 0}, {.slots = {2}, .policy = CachePolicy::lru});
  for (CacheDecisions* d : {&by_score, &by_age}) {
    d->see(0, 0.9), d->see(1, 0.1), d->see(2, 0.5);
    for (const int item : {0, 1, 2}) d->want({{item}});
  }
  EXPECT_GE(by_score.slot_of(0), 0) << "1 went, it had least";
  EXPECT_EQ(by_score.slot_of(1), -1);
  EXPECT_EQ(by_age.slot_of(0), -1) << "0 went, it was used first";
  EXPECT_GE(by_age.slot_of(1), 0);
  CacheDecisions equal({0, 0, 0, 0}, {.slots = {2}});
  for (const int item : {0, 1, 2}) equal.want({{item}});
  EXPECT_EQ(equal.slot_of(0), -1);
}

// A list of m items through n slots, m > n, reads ahead: a slot that is written over was used as long ago as can be.
TEST(CacheDecisions, ALongListReadsAhead) {
  CacheDecisions decisions(std::vector<int>(10, 0), {.slots = {3}});
  std::vector<int> list(10);
  std::iota(list.begin(), list.end(), 0);
  const auto reads = decisions.want(list);
  ASSERT_EQ(reads.size(), 10u);
  for (size_t p = 0; p < 10; ++p) EXPECT_EQ(reads[p].after, p < 3 ? -1 : static_cast<int>(p) - 3);
}

// What a recorded cache did: a lease for each use, a read for each miss, of one turn, in whole blocks.
TEST(ExtentCache, RecordsItsReadsAndLeases) {
  const std::vector<std::byte> file = patterned_file(20'000);
  MemoryBlocks files({file}, kTestBlock);
  const std::vector<CacheItem> items = some_items(12);
  Cache c(files, items, {.slots = {2, 3}}, 2);
  const auto run = [&](uint64_t seed) {
    const std::vector<int> list = some_list(12, 7, seed);
    for (const int item : list) c.cache.see(item, 0.1 * static_cast<double>(item));
    c.cache.want(list);
    use_all(c.cache, items, file, list);
  };
  run(1);
  EXPECT_TRUE(c.cache.take_reads().empty());  // not yet asked for
  CacheDecisions said = c.cache.settled_decisions();
  const CacheCounts before = c.cache.counts();
  c.cache.record(true);
  for (uint64_t seed = 2; seed < 12; ++seed) run(seed);
  std::vector<std::pair<int64_t, int>> uses, misses, leased, read;  // turn and item
  for (const ExtentCache::Event& event : c.cache.take_events()) {
    if (event.item >= 0) {
      said.see(event.item, event.share);
      continue;
    }
    const int64_t turn = said.hits().wanted;
    for (size_t p = 0; p < event.list.size(); ++p) uses.emplace_back(turn + static_cast<int64_t>(p), event.list[p]);
    for (const PlannedRead& planned : said.want(event.list))
      misses.emplace_back(turn + planned.place, event.list[static_cast<size_t>(planned.place)]);
  }
  int64_t bytes = 0;
  for (const RingLease& lease : c.cache.take_leases()) {
    leased.emplace_back(lease.turn, lease.place);
    EXPECT_LE(lease.asked_ns, lease.begin_ns);
    EXPECT_LE(lease.begin_ns, lease.end_ns);
  }
  for (const RingRead& one : c.cache.take_reads()) {
    read.emplace_back(one.turn, one.place);
    EXPECT_EQ(one.bytes, c.cache.block_bytes(one.place));
    EXPECT_LE(one.begin_ns, one.end_ns);
    bytes += one.bytes;
  }
  std::ranges::sort(read);  // two threads may end in another order
  EXPECT_EQ(leased, uses);
  EXPECT_EQ(read, misses);
  EXPECT_GT(misses.size(), 10u);
  EXPECT_LT(misses.size(), uses.size());
  EXPECT_EQ(bytes, c.cache.counts().read_bytes - before.read_bytes);
}

}  // namespace
}  // namespace tern
