#include "store/read_extent.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string_view>
#include <thread>

#include <unistd.h>

#include "base/error.h"
#include "store/blocks_testing.h"
#include "store/choose_reader.h"
#include "store/uring_reads.h"

namespace tern {
namespace {

std::vector<std::byte> some_bytes(int64_t count) {
  std::vector<std::byte> bytes(static_cast<size_t>(count));
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>((i * 2654435761u) >> 13);
  return bytes;
}

struct Room {
  explicit Room(int64_t bytes, int64_t alignment)
      : memory(static_cast<std::byte*>(std::aligned_alloc(static_cast<size_t>(alignment), static_cast<size_t>(bytes)))),
        size(static_cast<size_t>(bytes)) {}
  ~Room() { std::free(memory); }
  Room(const Room&) = delete;
  Room& operator=(const Room&) = delete;
  std::span<std::byte> span() const { return {memory, size}; }
  std::byte* memory;
  size_t size;
};

constexpr std::string_view kEveryWay[] = {"direct", "buffered", "io_uring"};

// Files opened that way; where the kernel or the file system has none, as those who need them do.
std::unique_ptr<BlockFiles> opened(std::string_view way, const std::string& path) {
  if (way == "io_uring") {
    OpenedUring uring = open_uring_blocks({path});
    EXPECT_EQ(uring.files == nullptr, !uring.refusal.empty());
    if (uring.files) return std::move(uring.files);
  }
  OpenedBlocks blocks = open_blocks({path}, way == "buffered" ? ReadWay::buffered : ReadWay::direct);
  EXPECT_EQ(name_of(blocks.way) == way || way == "io_uring", blocks.note.empty()) << blocks.note;
  return std::move(blocks.files);
}

bool same(std::span<const std::byte> got, const std::vector<std::byte>& file, const Extent& e) {
  return static_cast<int64_t>(got.size()) == e.bytes && std::equal(got.begin(), got.end(), file.begin() + e.offset);
}

TEST(ReadExtent, AnyOffsetAndTailInWholeBlocks) {
  const std::vector<std::byte> file = some_bytes(1000);
  MemoryBlocks files({file});
  for (const Extent e : {Extent{0, 0, 1}, {0, 63, 2}, {0, 64, 64}, {0, 1, 999}, {0, 999, 1}, {0, 130, 700}}) {
    const Room room(room_for(e.bytes, 64), 64);
    const ReadExtent got = read_extent(files, e, room.span());
    EXPECT_TRUE(same(got.bytes, file, e)) << e.offset << " + " << e.bytes;
    EXPECT_GE(got.read, e.bytes);
    EXPECT_LE(got.read, e.bytes + 2 * 64 - 2);
  }
}

TEST(ReadExtent, ShortAndInterruptedReadsGoOn) {
  const std::vector<std::byte> file = some_bytes(5000);
  MemoryBlocks inner({file});
  for (const int64_t most : {1, 63, 64, 65, 200}) {
    // A read that ends within a block is read again from the block's begin: progress needs more than a block's rest.
    FaultyBlocks files(inner, [&](int64_t k, int64_t wanted) {
      if (k % 3 == 1) return int64_t{-EINTR};
      return most < 65 ? std::min<int64_t>(wanted, 64 + most) : std::min(wanted, most);
    });
    const Extent e{0, 77, 4801};
    const Room room(room_for(e.bytes, 64), 64);
    EXPECT_TRUE(same(read_extent(files, e, room.span()).bytes, file, e)) << most;
    EXPECT_GT(files.num_reads, 10);
  }
}

std::string what_fails(BlockFiles& files, const Extent& e) {
  const Room room(room_for(e.bytes, files.alignment()), files.alignment());
  try {
    read_extent(files, e, room.span());
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_file);
    return error.what();
  }
  return "";
}

TEST(ReadExtent, AFileCutShortOrABrokenDiskIsNamed) {
  MemoryBlocks inner({some_bytes(1000)});
  EXPECT_NE(what_fails(inner, {0, 500, 501}).find("weights.bin: ends at byte 1000"), std::string::npos);
  EXPECT_NE(what_fails(inner, {0, 4000, 10}).find("cut the file short"), std::string::npos);
  FaultyBlocks broken(inner, [](int64_t k, int64_t wanted) { return k == 0 ? int64_t{64} : k == 1 ? -EIO : wanted; });
  const std::string what = what_fails(broken, {0, 0, 900});
  EXPECT_NE(what.find("weights.bin: reading 900 bytes at byte 0 failed: Input/output error"), std::string::npos)
      << what;
}

struct OnDisk {
  explicit OnDisk(const std::filesystem::path& folder, const std::vector<std::byte>& bytes)
      : path((folder / ("tern_store_" + std::to_string(::getpid()))).string()) {
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }
  ~OnDisk() { std::remove(path.c_str()); }
  OnDisk(const OnDisk&) = delete;
  OnDisk& operator=(const OnDisk&) = delete;
  std::string path;
};

TEST(BlockFiles, EveryWayReadsTheSameBytes) {
  const std::vector<std::byte> bytes = some_bytes(6'300'001);
  const OnDisk file(std::filesystem::current_path(), bytes);
  for (const std::string_view way : kEveryWay) {
    SCOPED_TRACE(way);
    const auto files = opened(way, file.path);
    const int64_t a = files->alignment();
    for (const Extent e : {Extent{0, 0, 6'300'001}, {0, 4095, 2}, {0, 123'457, 5'999'999}, {0, 6'300'000, 1}}) {
      const Room room(room_for(e.bytes, a), a);
      EXPECT_TRUE(same(read_extent(*files, e, room.span()).bytes, bytes, e)) << e.offset;
    }
  }
}

// Several threads at a time, each with reads of many short ones.
TEST(BlockFiles, ThreadsShareAWay) {
  const std::vector<std::byte> bytes = some_bytes(3'000'000);
  const OnDisk file(std::filesystem::current_path(), bytes);
  for (const std::string_view way : kEveryWay) {
    const auto files = opened(way, file.path);
    const int64_t a = files->alignment();
    std::vector<std::thread> threads;
    std::atomic<int> right = 0;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&, t] {
        const Room room(room_for(1'500'000, a), a);
        for (int i = 0; i < 8; ++i) {
          const Extent e{0, 31'000 * t + 1009 * i, 1'500'000 - 100'000 * t};
          right += same(read_extent(*files, e, room.span()).bytes, bytes, e) ? 1 : 0;
        }
      });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(right, 32) << way;
  }
}

// The real file, cut while it is open: within the first short reads, and within later ones.
TEST(BlockFiles, AFileCutShortWhileItIsOpenIsNamedByEveryWay) {
  for (const std::string_view way : kEveryWay)
    for (const int64_t left : {0, 1000, 4096, 700'123}) {
      const OnDisk file(std::filesystem::current_path(), some_bytes(3'000'000));
      const auto files = opened(way, file.path);
      std::filesystem::resize_file(file.path, static_cast<uintmax_t>(left));
      const std::string what = what_fails(*files, {0, 100, 2'900'000});
      EXPECT_NE(what.find(file.path + ": ends at byte " + std::to_string(left)), std::string::npos)
          << way << ", " << left << " left: " << what;
    }
}

TEST(BlockFiles, ShortInterruptedAndFailingReadsOfEveryWayAreAsThoseOfOthers) {
  const std::vector<std::byte> bytes = some_bytes(2'000'000);
  const OnDisk file(std::filesystem::current_path(), bytes);
  for (const std::string_view way : kEveryWay) {
    SCOPED_TRACE(way);
    const auto files = opened(way, file.path);
    FaultyBlocks hasty(*files, [](int64_t k, int64_t wanted) {
      return k % 3 == 1 ? int64_t{-EINTR} : std::min<int64_t>(wanted, 300'000);
    });
    const Extent e{0, 777, 1'900'000};
    const Room room(room_for(e.bytes, hasty.alignment()), hasty.alignment());
    EXPECT_TRUE(same(read_extent(hasty, e, room.span()).bytes, bytes, e));
    EXPECT_GT(hasty.num_reads, 8);
    FaultyBlocks broken(*files,
                        [](int64_t k, int64_t wanted) { return k == 1 ? -EIO : std::min<int64_t>(wanted, 300'000); });
    EXPECT_NE(what_fails(broken, e).find("Input/output error"), std::string::npos);
  }
}

TEST(UringReads, ALongReadIsWhatItsShortOnesGiveUpToTheFirstGap) {
  const auto of = [](const std::vector<int32_t>& results) { return bytes_without_gap(results, 100, 40); };
  EXPECT_EQ(of({100, 100, 40}), 240);
  EXPECT_EQ(of({100, 60, 40}), 160);
  EXPECT_EQ(of({100, 100, 0}), 200);
  EXPECT_EQ(of({0, 100, 40}), 0);
  EXPECT_EQ(of({100, -EIO, 40}), 100);
  EXPECT_EQ(of({-EINTR, 100, 40}), -EINTR);
  EXPECT_EQ(of({}), 0);
}

TEST(ReadProbe, ALongerReadThatWaitedForTheDiskCorrectsIt) {
  const ProbedRate probed{.bytes = 100, .seconds = 0.5};
  EXPECT_EQ(corrected_rate(probed, 100, 2, 1), 50);
  EXPECT_EQ(corrected_rate(probed, 99, 2, 1), 200);     // shorter than the probe
  EXPECT_EQ(corrected_rate(probed, 100, 2, 0.9), 200);  // it waited for something else
  EXPECT_EQ(corrected_rate(probed, 0, 0, 0), 200);
}

TEST(ReadProbe, TheFastestIsTakenAndOfNearlyEqualOnesWhatNeedsLessOfTheProcessor) {
  const auto reader = [](double gb_per_s, double cpu_s_per_gb) {
    return ProbedReader{.threads = 1, .rate = {1'000'000'000, 1 / gb_per_s, cpu_s_per_gb}};
  };
  EXPECT_EQ(best_reader({{reader(1.0, 0.1), reader(1.2, 0.5)}}), 1u);
  EXPECT_EQ(best_reader({{reader(1.2, 0.5), reader(1.19, 0.1)}}), 1u);
  EXPECT_EQ(best_reader({{reader(1.2, 0.1), reader(1.19, 0.1)}}), 0u);
  EXPECT_EQ(best_reader({{reader(1.0, 0.1)}}), 0u);
}

TEST(ReadProbe, TriesEveryWayThatTheFilesAllow) {
  const OnDisk file(std::filesystem::current_path(), some_bytes(3'000'000));
  std::vector<Extent> extents;
  for (int i = 0; i < 29; ++i) extents.push_back({0, 100'000 * i, 100'000});
  const ChosenReader choice = choose_reader({file.path}, extents, 4, 0.02);
  ASSERT_FALSE(choice.probed.empty());
  EXPECT_EQ(choice.probed.size() == 2, uring_refusal().empty() && choice.probed.front().name == "direct");
  for (const ProbedReader& r : choice.probed) EXPECT_GT(r.rate.bytes_per_s(), 0) << r.name;
  const Room room(8192, 4096);
  EXPECT_EQ(read_extent(*choice.files, {0, 5, 9}, room.span()).bytes.size(), 9u);
  const ChosenReader buffered = choose_reader({"/proc/version"}, {{{0, 0, 4}}}, 4, 0.02);
  EXPECT_EQ(buffered.probed.size(), 1u);
  EXPECT_EQ(buffered.reader().name, "buffered");
  EXPECT_NE(buffered.note.find("O_DIRECT"), std::string::npos);
}

TEST(BlockFiles, ARefusalOfDirectReadsIsSaidAndReadsBuffered) {
  EXPECT_NE(open_uring_blocks({"/proc/version"}).refusal.find("O_DIRECT"), std::string::npos);
  const std::string path = "/proc/version";  // of a file system without direct reads
  const OpenedBlocks opened = open_blocks({path});
  EXPECT_EQ(opened.way, ReadWay::buffered);
  EXPECT_NE(opened.note.find(path), std::string::npos);
  EXPECT_NE(opened.note.find("O_DIRECT"), std::string::npos);
  const Extent e{0, 1, 4};
  const Room room(room_for(e.bytes, 4096), 4096);
  const ReadExtent got = read_extent(*opened.files, e, room.span());
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(got.bytes.data()), 4), "inux");
}

TEST(BlockFiles, AMissingFileIsNamed) {
  try {
    open_blocks({"no_such_weights.bin"});
    FAIL();
  } catch (const Error& error) { EXPECT_NE(std::string(error.what()).find("no_such_weights.bin"), std::string::npos); }
}

}  // namespace
}  // namespace tern
