#include "store/ring_window.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <random>

#include "base/bug.h"
#include "base/clock.h"
#include "store/blocks_testing.h"
#include "store/extent_ring.h"
#include "store/pass_time.h"

namespace tern {
namespace {

std::vector<RingWindow> some_windows() {
  return {{.blocks = {}, .resident = 1},
          {.blocks = {}, .resident = 4},
          {.blocks = {3}, .resident = 1},
          {.blocks = {2, 1, 3, 1}, .resident = 1},
          {.blocks = {2, 1, 3, 1}, .resident = 2},
          {.blocks = {2, 1, 3, 1}, .resident = 4},
          {.blocks = {2, 1, 3, 1, 2}, .resident = 2, .step = 2},
          {.blocks = {2, 1, 3, 1, 2}, .resident = 3, .step = 2},
          {.blocks = {1, 1, 1, 1, 1, 1, 5}, .resident = 4, .step = 3},
          {.blocks = {1, 2}, .resident = 2, .step = 2}};
}
int places_of(const RingWindow& w) {
  return w.blocks.empty() ? 7 : std::accumulate(w.blocks.begin(), w.blocks.end(), 0);
}
std::string words(const RingWindow& w) {
  return std::to_string(w.resident) + " of " + std::to_string(w.blocks.size()) + " blocks, " + std::to_string(w.step) +
         " at a time";
}

// The window as one would say it: which block a turn is in, and how many blocks have been given back when all before `use` were used.
struct SaidWindow {
  explicit SaidWindow(const RingWindow& w) : window(w) {
    if (window.blocks.empty()) window.blocks.assign(static_cast<size_t>(places_of(w)), 1);
  }
  int64_t block(int64_t turn) const {
    int64_t b = 0;
    for (int64_t left = turn;; ++b)
      if ((left -= window.blocks[static_cast<size_t>(b) % window.blocks.size()]) < 0) return b;
  }
  int64_t given_back(int64_t use) const {
    const auto count = static_cast<int64_t>(window.blocks.size());
    int64_t back = 0;
    for (int64_t done = 1; done <= block(use); ++done)
      if (done % count == 0 || done % count % window.step == 0) back = done;
    return back;
  }
  bool may_read(int64_t turn, int64_t use) const { return block(turn) < given_back(use) + window.resident; }
  RingWindow window;
};

TEST(RingTurns, AreTheWindowAsOneSaysIt) {
  for (const RingWindow& w : some_windows()) {
    const RingTurns turns(w, places_of(w));
    const SaidWindow said(w);
    for (int64_t use = 0; use < 40; ++use) {
      for (int64_t turn = use; turn < 60; ++turn) {
        ASSERT_EQ(turn < turns.read_end(use), said.may_read(turn, use)) << words(w) << ", " << turn << " at " << use;
        ASSERT_EQ(use > turns.freed_by(turn), said.may_read(turn, use)) << words(w) << ", " << turn << " at " << use;
        ASSERT_EQ(turn < turns.lent_end(use), said.block(turn) == said.block(use));
      }
      // Whatever is in memory or on its way there has a slot of its own.
      const int64_t begin = turns.freed_by(turns.read_end(use) - 1) + 1;
      EXPECT_LE(turns.read_end(use) - begin, slots_for(w)) << words(w);
    }
  }
}

TEST(RingTurns, RefuseWindowsOfWhichNothingIsRead) {
  EXPECT_THROW(RingTurns({.blocks = {}, .resident = 0}, 3), Bug);
  EXPECT_THROW(RingTurns({.blocks = {1, 1}, .resident = 1, .step = 2}, 2), Bug);
  EXPECT_THROW(RingTurns({.blocks = {1, 1}, .resident = 1}, 3), Bug);
  EXPECT_THROW(RingTurns({.blocks = {1, 0, 1}, .resident = 1}, 2), Bug);
}

// Blocks of m equal extents are extents that are m times as long.
TEST(RingTurns, OfEqualBlocksPassesTakeTheClosedForm) {
  for (const int n : {1, 2, 5})
    for (const int m : {1, 3})
      for (const auto& [load, forward] : {std::pair<int64_t, int64_t>{9, 4}, {4, 9}, {5, 5}})
        for (int resident = 1; resident <= n; ++resident) {
          const std::vector<PassStep> steps(static_cast<size_t>(n * m), {.load_ps = load, .forward_ps = forward});
          const RingWindow w{.blocks = std::vector<int>(static_cast<size_t>(n), m), .resident = resident};
          const int64_t one = m * load, other = m * forward;
          EXPECT_EQ(pass_times(steps, w).end_ps,
                    resident == 1 ? n * (one + other) : one + (n - 1) * std::max(one, other) + other)
              << n << " blocks of " << m << ", " << resident;
          EXPECT_EQ(steady_pass_ps(steps, w), n * (resident == 1 ? one + other : std::max(one, other)));
        }
  // All that is given back together is read together: with as many at a time as there are, nothing overlaps.
  const std::vector<PassStep> steps(6, {.load_ps = 3, .forward_ps = 5});
  EXPECT_EQ(steady_pass_ps(steps, {.blocks = {1, 1, 1, 1, 1, 1}, .resident = 3, .step = 3}), 2 * (3 + 3 * 5));
}

// A slow disk that looks at each read: the window allows it, and it comes in its turn.
class WatchedBlocks : public BlockFiles {
 public:
  WatchedBlocks(BlockFiles& inner, const RingWindow& window) : inner_(inner), said_(window) {}
  int64_t alignment() const override { return inner_.alignment(); }
  const std::string& path(int file) const override { return inner_.path(file); }
  int64_t read(int file, int64_t offset, std::span<std::byte> into) override {
    {
      const std::lock_guard lock(mutex_);
      const int64_t place = offset / inner_.alignment(), turn = place + passes_[place]++ * places_of(said_.window);
      if (!said_.may_read(turn, used)) ++too_early;
    }
    real_clock().sleep_ns(300'000);
    const int64_t got = inner_.read(file, offset, into);
    ++ended;
    return got;
  }
  std::atomic<int64_t> used = 0, too_early = 0, ended = 0;

 private:
  BlockFiles& inner_;
  SaidWindow said_;
  std::mutex mutex_;
  std::map<int64_t, int64_t> passes_;  // of each place
};

// A block is read once the window allows it and not before, lent once all of it is there, and given back whole.
TEST(RingTurns, AreWhatTheRingReadsLendsAndGivesBack) {
  for (const RingWindow& w : some_windows())
    for (const int threads : {1, 3}) {
      // Of blocks two slots more than they need: the window alone forbids.
      const int places = places_of(w), slots = slots_for(w) + (w.blocks.empty() ? 0 : 2);
      const std::vector<std::byte> file = patterned_file(places * kTestBlock);
      MemoryBlocks inner({file}, kTestBlock);
      WatchedBlocks files(inner, w);
      std::vector<Extent> order;
      for (int i = 0; i < places; ++i) order.push_back({0, i * kTestBlock, kTestBlock});
      const auto bytes = static_cast<size_t>(CyclicRing::bytes_for(order, slots, kTestBlock));
      const std::unique_ptr<void, decltype(&std::free)> memory(std::aligned_alloc(kTestBlock, bytes), &std::free);
      const RingTurns turns(w, places);
      int64_t used = 0;
      {
        CyclicRing ring(files, order, {.slots = slots, .threads = threads, .window = w},
                        {static_cast<std::byte*>(memory.get()), bytes});
        for (; used < 3 * places; ++used) {
          const ExtentLease lease(ring, static_cast<int>(used % places));
          EXPECT_GE(files.ended, turns.lent_end(used)) << words(w);
          ASSERT_TRUE(std::equal(lease.bytes().begin(), lease.bytes().end(), file.begin() + used % places * kTestBlock))
              << words(w) << ", turn " << used;
          real_clock().sleep_ns(400'000);  // time for a read that must not be
          files.used = used + 1;
        }
        real_clock().sleep_ns(30'000'000);
        EXPECT_EQ(files.ended, turns.read_end(used)) << words(w) << ": all that the window allows is read";
      }
      EXPECT_EQ(files.too_early, 0) << words(w) << ", " << threads << " threads";
    }
}

// Blocks that a pass leaves out are passed over.
TEST(RingTurns, ABlockThatIsLeftOutIsPassedOver) {
  const RingWindow w{.blocks = {2, 1, 3, 1, 4}, .resident = 3, .step = 2};
  const std::vector<std::byte> file = patterned_file(11 * kTestBlock);
  MemoryBlocks files({file}, kTestBlock);
  std::vector<Extent> order;
  for (int i = 0; i < 11; ++i) order.push_back({0, i * kTestBlock, kTestBlock});
  const auto bytes = static_cast<size_t>(CyclicRing::bytes_for(order, slots_for(w), kTestBlock));
  const std::unique_ptr<void, decltype(&std::free)> memory(std::aligned_alloc(kTestBlock, bytes), &std::free);
  CyclicRing ring(files, order, {.slots = slots_for(w), .threads = 3, .window = w},
                  {static_cast<std::byte*>(memory.get()), bytes});
  std::mt19937 random(4);
  for (int pass = 0; pass < 200; ++pass) {
    const int end = random() % 2 ? 11 : 7;  // without the last block
    for (int place = 0; place < end; ++place) {
      const ExtentLease lease(ring, place);
      ASSERT_TRUE(std::equal(lease.bytes().begin(), lease.bytes().end(), file.begin() + place * kTestBlock))
          << pass << ", " << place;
    }
  }
  EXPECT_GT(ring.counts().skipped, 0);
}

}  // namespace
}  // namespace tern
