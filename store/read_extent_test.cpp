#include "store/read_extent.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include <unistd.h>

#include "base/error.h"
#include "store/blocks_testing.h"

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

TEST(BlockFiles, DirectAndBufferedReadTheSameBytes) {
  const std::vector<std::byte> bytes = some_bytes(300'001);
  const OnDisk file(std::filesystem::current_path(), bytes);
  for (const ReadWay way : {ReadWay::direct, ReadWay::buffered}) {
    const OpenedBlocks opened = open_blocks({file.path}, way);
    EXPECT_EQ(opened.way == way, opened.note.empty());
    const int64_t a = opened.files->alignment();
    for (const Extent e : {Extent{0, 0, 300'001}, {0, 4095, 2}, {0, 123'457, 99'999}, {0, 300'000, 1}}) {
      const Room room(room_for(e.bytes, a), a);
      EXPECT_TRUE(same(read_extent(*opened.files, e, room.span()).bytes, bytes, e)) << e.offset;
    }
  }
}

TEST(BlockFiles, ARefusalOfDirectReadsIsSaidAndReadsBuffered) {
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
