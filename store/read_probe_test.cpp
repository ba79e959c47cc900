#include "store/read_probe.h"

#include <gtest/gtest.h>

#include <atomic>
#include <utility>
#include <vector>

#include "store/blocks_testing.h"

namespace tern {
namespace {

// A disk of one byte a nanosecond of a virtual clock, and what it had read whenever its reader rested.
class VirtualDisk : public BlockFiles {
 public:
  explicit VirtualDisk(int64_t bytes) : memory_({patterned_file(bytes)}) {}
  int64_t alignment() const override { return memory_.alignment(); }
  const std::string& path(int file) const override { return memory_.path(file); }
  int64_t read(int file, int64_t offset, std::span<std::byte> into) override {
    const int64_t got = memory_.read(file, offset, into);
    read_bytes += got;
    clock.advance_ns(got);
    return got;
  }

  struct RestingClock : VirtualClock {
    explicit RestingClock(VirtualDisk& d) : disk(d) {}
    void sleep_ns(int64_t duration_ns) override {
      disk.at_rests.push_back(disk.read_bytes);
      VirtualClock::sleep_ns(duration_ns);
    }
    VirtualDisk& disk;
  };
  std::atomic<int64_t> read_bytes = 0;
  std::vector<int64_t> at_rests;
  RestingClock clock{*this};

 private:
  MemoryBlocks memory_;
};

// Seven of group 0, of two blocks in two extents, and five of group 1, of one block.
std::vector<CacheItem> items_of_two_groups() {
  std::vector<CacheItem> items;
  int64_t at = 0;
  const auto block = [&] {
    return Extent{.file = 0, .offset = std::exchange(at, at + kTestBlock), .bytes = kTestBlock};
  };
  for (int i = 0; i < 7; ++i) {
    items.push_back({.extents = {block(), block()}, .group = 0});
    if (i < 5) items.push_back({.extents = {block()}, .group = 1});
  }
  return items;
}

TEST(ReadProbe, ListsAreReadTogetherAndRestsDoNotCount) {
  VirtualDisk disk(19 * kTestBlock);
  const ProbedRate rate = probe_lists(disk, items_of_two_groups(), 2, 1, 1, 100, disk.clock);
  EXPECT_EQ(rate.bytes, 19 * kTestBlock);  // each once
  EXPECT_EQ(disk.read_bytes, 19 * kTestBlock);
  EXPECT_NEAR(rate.seconds, 19 * kTestBlock * 1e-9, 1e-15);
  // Two of each group; the last lists have one of group 1, and none.
  EXPECT_EQ(disk.at_rests, (std::vector<int64_t>{0, 6 * kTestBlock, 12 * kTestBlock, 17 * kTestBlock}));
}

TEST(ReadProbe, ListsEndWithTheTime) {
  VirtualDisk disk(19 * kTestBlock);
  const ProbedRate rate = probe_lists(disk, items_of_two_groups(), 1, 0, 3, 4 * kTestBlock * 1e-9, disk.clock);
  EXPECT_EQ(rate.bytes, 6 * kTestBlock);  // after the first list there was time left
  EXPECT_EQ(probe_lists(disk, {}, 1, 0, 1, 1, disk.clock).bytes, 0);
}

}  // namespace
}  // namespace tern
