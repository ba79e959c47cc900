#include "store/extent_ring.h"

#include <gtest/gtest.h>

#include <memory>

#include "base/error.h"
#include "store/blocks_testing.h"
#include "store/pass_time.h"

namespace tern {
namespace {

struct Ring {
  Ring(BlockFiles& files, std::vector<Extent> order, const RingSettings& settings)
      : bytes(CyclicRing::bytes_for(order, settings.slots, files.alignment())),
        memory(std::aligned_alloc(kTestBlock, static_cast<size_t>(bytes)), &std::free),
        ring(files, std::move(order), settings, {static_cast<std::byte*>(memory.get()), static_cast<size_t>(bytes)}) {}
  int64_t bytes;
  std::unique_ptr<void, decltype(&std::free)> memory;
  CyclicRing ring;
};

// Extents of unlike sizes at unlike places: 37 + 11·i bytes at 101·i.
std::vector<Extent> some_extents(int count) {
  std::vector<Extent> order;
  for (int i = 0; i < count; ++i) order.push_back({0, 101 * i, 37 + 11 * i});
  return order;
}

TEST(CyclicRing, GivesEveryExtentInOrderOverManyPasses) {
  const std::vector<std::byte> file = patterned_file(4000);
  MemoryBlocks files({file}, kTestBlock);
  const std::vector<Extent> order = some_extents(7);
  int64_t pass_bytes = 0;
  for (const Extent& e : order) pass_bytes += e.bytes;
  for (const int slots : {1, 2, 3, 7, 10})
    for (const int threads : {1, 2, 5}) {
      Ring r(files, order, {.slots = slots, .threads = threads});
      for (int pass = 0; pass < 20; ++pass)
        for (int place = 0; place < 7; ++place) {
          const ExtentLease lease(r.ring, place);
          const Extent& e = order[static_cast<size_t>(place)];
          ASSERT_EQ(static_cast<int64_t>(lease.bytes().size()), e.bytes);
          if (pass < 3) real_clock().sleep_ns(200'000);  // time for a thread to write where it may not
          ASSERT_TRUE(std::equal(lease.bytes().begin(), lease.bytes().end(), file.begin() + e.offset))
              << slots << " slots, " << threads << " threads, pass " << pass << ", place " << place;
        }
      const RingCounts counts = r.ring.counts();
      EXPECT_EQ(counts.used, 140);
      EXPECT_EQ(counts.used_bytes, 20 * pass_bytes);
      EXPECT_EQ(counts.skipped, 0);
      EXPECT_GE(counts.read_bytes, counts.used_bytes);
    }
}

TEST(CyclicRing, PlacesThatAreLeftOutArePassedOver) {
  const std::vector<std::byte> file = patterned_file(4000);
  MemoryBlocks inner({file}, kTestBlock);
  const std::vector<Extent> order = some_extents(9);
  for (const int slots : {1, 3, 12}) {
    FaultyBlocks files(inner, [](int64_t, int64_t wanted) { return wanted; });
    Ring r(files, order, {.slots = slots, .threads = 2});
    int64_t used = 0;
    for (int turn = 0; turn < 60; ++turn) {
      const int place = turn * turn % 9;  // jumps, and the same place again
      const ExtentLease lease(r.ring, place);
      const Extent& e = order[static_cast<size_t>(place)];
      ASSERT_TRUE(std::equal(lease.bytes().begin(), lease.bytes().end(), file.begin() + e.offset)) << turn;
      ++used;
    }
    const RingCounts counts = r.ring.counts();
    EXPECT_EQ(counts.used, used);
    EXPECT_LE(files.num_reads, counts.used + counts.skipped + slots);  // nothing that was passed over is read later
    if (slots > 1) { EXPECT_GT(r.ring.counts().skipped, 0); }
  }
}

TEST(CyclicRing, OncePassesReadNothingTwice) {
  MemoryBlocks files({patterned_file(4000)}, kTestBlock);
  Ring r(files, some_extents(5), {.slots = 4, .threads = 3, .cyclic = false});
  for (int place = 0; place < 5; ++place) const ExtentLease lease(r.ring, place);
  int64_t blocks = 0;
  for (const Extent& e : some_extents(5)) blocks += blocks_of(e, kTestBlock).bytes;
  EXPECT_EQ(r.ring.counts().read_bytes, blocks);
}

TEST(CyclicRing, AFailedReadIsToldToWhoNeedsIt) {
  MemoryBlocks inner({patterned_file(4000)}, kTestBlock);
  FaultyBlocks files(inner, [](int64_t k, int64_t wanted) { return k == 2 ? -EIO : wanted; });
  Ring r(files, some_extents(5), {.slots = 4, .threads = 1});
  { const ExtentLease first(r.ring, 0); }
  { const ExtentLease second(r.ring, 1); }
  try {
    const ExtentLease third(r.ring, 2);
    FAIL();
  } catch (const Error& error) { EXPECT_NE(std::string(error.what()).find("Input/output error"), std::string::npos); }
}

TEST(CyclicRing, EndsWhileThreadsReadAndWait) {
  MemoryBlocks inner({patterned_file(4000)}, kTestBlock);
  PacedBlocks files(inner, 1e-5);
  for (int i = 0; i < 20; ++i) {
    Ring r(files, some_extents(6), {.slots = 3, .threads = 3});
    if (i % 2) const ExtentLease lease(r.ring, 0);
  }
}

TEST(CyclicRing, RecordsItsReads) {
  MemoryBlocks files({patterned_file(4000)}, kTestBlock);
  Ring r(files, some_extents(4), {.slots = 1, .threads = 1});
  { const ExtentLease lease(r.ring, 0); }
  r.ring.record(true);
  for (const int place : {1, 2, 3, 0}) const ExtentLease lease(r.ring, place);
  const std::vector<RingRead> reads = r.ring.take_reads();
  EXPECT_GE(reads.size(), 3u);
  for (const RingRead& read : reads) {
    EXPECT_LE(read.begin_ns, read.end_ns);
    EXPECT_EQ(read.bytes, r.ring.block_bytes(read.place));
    EXPECT_EQ(read.turn % 4, read.place);
  }
}

// A lease is of the read of its turn, which ended before; the next one is asked for behind it. What is held is not taken yet.
TEST(CyclicRing, RecordsItsLeases) {
  MemoryBlocks files({patterned_file(4000)}, kTestBlock);
  for (const int slots : {1, 2, 5}) {
    Ring r(files, some_extents(4), {.slots = slots, .threads = 2});
    r.ring.record(true);
    for (int i = 0; i < 9; ++i) const ExtentLease lease(r.ring, i % 4);
    std::vector<RingLease> leases;
    {
      const ExtentLease held(r.ring, 1);
      leases = r.ring.take_leases();
      ASSERT_EQ(leases.size(), 9u);
    }
    EXPECT_EQ(r.ring.take_leases().size(), 1u);
    std::vector<int64_t> read_end(9, INT64_MAX);  // of each turn
    const std::vector<RingRead> reads = r.ring.take_reads();
    EXPECT_GE(reads.size(), 4u);  // of nine; as many as there are slots may have come before the recording
    for (const RingRead& read : reads)
      if (read.turn < 9) read_end[static_cast<size_t>(read.turn)] = read.end_ns;
    int64_t before = 0;
    for (size_t i = 0; i < leases.size(); ++i) {
      const RingLease& l = leases[i];
      EXPECT_EQ(l.turn, static_cast<int64_t>(i));
      EXPECT_EQ(l.place, static_cast<int>(i % 4));
      EXPECT_LE(before, l.asked_ns);
      EXPECT_LE(l.asked_ns, l.begin_ns);
      if (i >= static_cast<size_t>(slots)) {
        EXPECT_LE(read_end[i], l.begin_ns);
      }  // others may come before the recording
      EXPECT_LE(l.begin_ns, l.end_ns);
      before = l.end_ns;
    }
  }
}

// The last block of a file counts whole.
TEST(CyclicRing, ReadsAtTheEndOfAFileAreOfWholeBlocks) {
  MemoryBlocks files({patterned_file(1000)}, kTestBlock);  // 15 blocks and 40 bytes
  Ring r(files, {{0, 0, 100}, {0, 930, 70}}, {.slots = 2, .threads = 1});
  r.ring.record(true);
  for (int i = 0; i < 6; ++i) const ExtentLease lease(r.ring, i % 2);
  const std::vector<RingRead> reads = r.ring.take_reads();
  EXPECT_GE(reads.size(), 4u);
  for (const RingRead& read : reads) EXPECT_EQ(read.bytes, 128);
}

// The ring and its twin on the virtual clock: a paced disk and products that sleep.
TEST(CyclicRing, TakesTheTimeOfItsTwinOnTheVirtualClock) {
  constexpr int kExtents = 10;
  constexpr int64_t kLoadNs = 8'000'000, kForwardNs = 6'000'000;
  std::vector<Extent> order;
  for (int i = 0; i < kExtents; ++i) order.push_back({0, i * kTestBlock, kTestBlock});
  MemoryBlocks inner({patterned_file(kExtents * kTestBlock)}, kTestBlock);
  for (const int slots : {1, 2, 4}) {
    PacedBlocks files(inner, 1e-9 * kLoadNs / kTestBlock);
    const int64_t begin_ns = real_clock().now_ns();
    Ring r(files, order, {.slots = slots, .threads = 2, .cyclic = false});
    for (int place = 0; place < kExtents; ++place) {
      const ExtentLease lease(r.ring, place);
      real_clock().sleep_ns(kForwardNs);
    }
    const double took = static_cast<double>(real_clock().now_ns() - begin_ns);
    const std::vector<PassStep> steps(kExtents, {.load_ps = 1000 * kLoadNs, .forward_ps = 1000 * kForwardNs});
    const double twin = 1e-3 * static_cast<double>(pass_times(steps, slots).end_ps);
    EXPECT_GE(took, twin * 0.999) << slots;
    EXPECT_LE(took, twin * 1.5) << slots;  // a busy machine wakes sleepers late; the log has the figure of an idle one
  }
}

// Whole huge pages where a good part of the last one is needed; little more than the slots else.
TEST(CyclicRing, ItsAllocationIsWholeHugePagesWhereThatCostsLittle) {
  const auto allocated = [](int64_t extent_bytes, int slots) {
    const std::vector<Extent> order = {{.file = 0, .offset = 0, .bytes = extent_bytes}};
    const int64_t bytes = CyclicRing::allocation_for(order, slots, 4096);
    EXPECT_GE(bytes, CyclicRing::bytes_for(order, slots, 4096) + 4095);
    return bytes;
  };
  constexpr int64_t kMiB = int64_t{1} << 20;
  EXPECT_EQ(allocated(4096, 3), CyclicRing::bytes_for(std::vector<Extent>{{.bytes = 4096}}, 3, 4096) + 4096);
  EXPECT_EQ(allocated(352 << 10, 8), 4 * kMiB);
  EXPECT_EQ(allocated(352 << 10, 5), 2 * kMiB);
  EXPECT_EQ(allocated(128 << 10, 8), 2 * kMiB);
  EXPECT_LT(allocated(512 << 10, 8), 4 * kMiB + (256 << 10)) << "a few small pages at the end";
}

}  // namespace
}  // namespace tern
