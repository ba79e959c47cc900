// Records that pass through memory: what a pass leaves is what the next one finds, whatever threads and slots; faults are told.
#include "store/exchange_ring.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <memory>

#include "base/bug.h"
#include "base/error.h"
#include "base/io.h"
#include "base/rounding.h"
#include "store/read_extent.h"
#include "store/scratch_testing.h"

namespace tern {
namespace {

constexpr int64_t kAlign = 64;

// Records of one to three extents, of 0 to 300 bytes; some lie side by side, others with a gap. Ends the file at a whole block.
std::vector<ExchangedRecord> some_records(int count, int64_t& file_bytes) {
  std::vector<ExchangedRecord> records;
  file_bytes = 0;
  for (int i = 0; i < count; ++i) {
    ExchangedRecord r;
    for (int k = 0; k <= i % 3; ++k) {
      const int64_t bytes = (37 * i + 101 * k) % 301;
      r.extents.push_back({0, file_bytes, bytes});
      file_bytes += round_up(bytes, kAlign) + (i % 2 == 0 ? 0 : kAlign);
    }
    records.push_back(std::move(r));
  }
  return records;
}

struct Exchange {
  Exchange(ScratchFile& file, std::vector<ExchangedRecord> records, const RingSettings& settings)
      : bytes(ExchangeRing::bytes_for(records, settings.slots, file.alignment())),
        memory(std::aligned_alloc(4096, static_cast<size_t>(round_up(std::max<int64_t>(bytes, 1), 4096))), &std::free),
        ring(file, std::move(records), settings, {static_cast<std::byte*>(memory.get()), static_cast<size_t>(bytes)}) {}
  int64_t bytes;
  std::unique_ptr<void, decltype(&std::free)> memory;
  ExchangeRing ring;
};

std::byte byte_of(int pass, int record, size_t extent, size_t i) {
  return static_cast<std::byte>(31 * pass + 7 * record + 5 * static_cast<int>(extent) + static_cast<int>(i) / 3);
}

// Each byte is that of the pass before; then it becomes this pass's.
void do_pass(ExchangeRing& ring, int pass, int64_t& wrong) {
  for (int record = 0; record < ring.num_records(); ++record) {
    const std::vector<std::span<std::byte>> extents = ring.acquire(record);
    for (size_t e = 0; e < extents.size(); ++e)
      for (size_t i = 0; i < extents[e].size(); ++i) {
        wrong += extents[e][i] != (pass == 0 ? std::byte{0} : byte_of(pass - 1, record, e, i));
        extents[e][i] = byte_of(pass, record, e, i);
      }
    ring.release();
  }
}

TEST(ExchangeRing, EachPassFindsWhatTheLastOneLeft) {
  int64_t file_bytes = 0, state = 0, blocks = 0;
  const std::vector<ExchangedRecord> records = some_records(11, file_bytes);
  for (const ExchangedRecord& r : records)
    for (const Extent& e : r.extents) state += e.bytes, blocks += round_up(e.bytes, kAlign);
  constexpr int kPasses = 20;
  for (const int slots : {1, 2, 3, 7, 11, 30})
    for (const int threads : {1, 2, 5}) {
      SCOPED_TRACE(std::to_string(slots) + " slots, " + std::to_string(threads) + " threads");
      MemoryScratch file(file_bytes, kAlign);
      Exchange x(file, records, {.slots = slots, .threads = threads});
      int64_t wrong = 0;
      for (int pass = 0; pass < kPasses; ++pass) do_pass(x.ring, pass, wrong);
      x.ring.settle();
      EXPECT_EQ(wrong, 0);
      for (size_t r = 0; r < records.size(); ++r)
        for (size_t e = 0; e < records[r].extents.size(); ++e)
          for (int64_t i = 0; i < records[r].extents[e].bytes; ++i)
            ASSERT_EQ(file.bytes()[static_cast<size_t>(records[r].extents[e].offset + i)],
                      byte_of(kPasses - 1, static_cast<int>(r), e, static_cast<size_t>(i)));
      const ExchangeCounts c = x.ring.counts();
      EXPECT_EQ(c.used, kPasses * std::ssize(records));
      EXPECT_EQ(c.used_bytes, kPasses * state);
      EXPECT_EQ(c.written_bytes, kPasses * blocks) << "whole blocks, each once a pass";
      EXPECT_GE(c.read_bytes, kPasses * blocks);
      EXPECT_LE(c.read_bytes, (kPasses + 1) * blocks) << "no more is read ahead than there are slots";
    }
}

TEST(ExchangeRing, ShortAndInterruptedTransfersAreGoneOnWith) {
  int64_t file_bytes = 0;
  const std::vector<ExchangedRecord> records = some_records(9, file_bytes);
  MemoryScratch file(file_bytes, kAlign);
  const auto odd = [](int64_t k, int64_t wanted) -> int64_t {
    if (k % 5 == 1) return -EINTR;
    if (k % 7 == 2) return std::min<int64_t>(wanted, kAlign + 3);  // ends within a block
    return k % 3 == 0 ? std::min<int64_t>(wanted, kAlign) : wanted;
  };
  file.on_read = file.on_write = odd;
  Exchange x(file, records, {.slots = 3, .threads = 2});
  int64_t wrong = 0;
  for (int pass = 0; pass < 8; ++pass) do_pass(x.ring, pass, wrong);
  x.ring.settle();
  EXPECT_EQ(wrong, 0);
}

std::string told(const std::function<void()>& f, ErrorKind kind) {
  try {
    f();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), kind) << e.what();
    return e.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

TEST(ExchangeRing, FaultsOfTheDiskAreToldByNameAndByte) {
  int64_t file_bytes = 0;
  const std::vector<ExchangedRecord> records = some_records(9, file_bytes);
  const auto passes = [&](MemoryScratch& file) {
    Exchange x(file, records, {.slots = 3, .threads = 2});
    int64_t wrong = 0;
    for (int pass = 0; pass < 3; ++pass) do_pass(x.ring, pass, wrong);
    x.ring.settle();
  };
  MemoryScratch reads(file_bytes, kAlign), writes(file_bytes, kAlign), full(file_bytes, kAlign);
  reads.on_read = [](int64_t k, int64_t wanted) -> int64_t { return k == 12 ? -EIO : wanted; };
  EXPECT_NE(told([&] { passes(reads); }, ErrorKind::bad_file).find("states.bin: reading"), std::string::npos);
  writes.on_write = [](int64_t k, int64_t wanted) -> int64_t { return k == 12 ? -EIO : wanted; };
  EXPECT_NE(told([&] { passes(writes); }, ErrorKind::bad_file).find("states.bin: writing"), std::string::npos);
  full.on_write = [](int64_t k, int64_t wanted) -> int64_t { return k >= 12 ? -ENOSPC : wanted; };
  EXPECT_NE(told([&] { passes(full); }, ErrorKind::does_not_fit).find("No space left"), std::string::npos);
}

TEST(ExchangeRing, RecordsComeInTheirOrderAlone) {
  int64_t file_bytes = 0;
  const std::vector<ExchangedRecord> records = some_records(4, file_bytes);
  MemoryScratch file(file_bytes, kAlign);
  Exchange x(file, records, {.slots = 2, .threads = 1});
  EXPECT_THROW(x.ring.acquire(1), Bug);
  x.ring.acquire(0);
  EXPECT_THROW(x.ring.acquire(0), Bug) << "it is held";
  x.ring.release();
  EXPECT_THROW(x.ring.release(), Bug);
  EXPECT_THROW(x.ring.acquire(2), Bug);
}

TEST(ScratchFile, IsZerosAtFirstKeepsWhatIsWrittenAndLeavesNothing) {
  std::string folder = testing::TempDir() + "tern-scratch-XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  constexpr int64_t kBytes = 5 * 4096;
  std::unique_ptr<void, decltype(&std::free)> memory(std::aligned_alloc(4096, kBytes), &std::free);
  const std::span<std::byte> all{static_cast<std::byte*>(memory.get()), static_cast<size_t>(kBytes)};
  for (const ReadWay way : {ReadWay::direct, ReadWay::buffered}) {
    const OpenedScratch opened = open_scratch(folder, kBytes, way);
    EXPECT_EQ(real_io().list(folder), std::vector<std::string>{}) << "it has no name";
    const ReadExtent first = read_extent(*opened.file, {0, 0, kBytes}, all);
    EXPECT_TRUE(std::ranges::all_of(first.bytes, [](std::byte b) { return b == std::byte{0}; }));
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::byte>(i / 7);
    write_blocks(*opened.file, 4096, all.first(2 * 4096));
    std::fill(all.begin(), all.end(), std::byte{0xee});
    const ReadExtent then = read_extent(*opened.file, {0, 0, kBytes}, all);
    for (size_t i = 0; i < then.bytes.size(); ++i)
      ASSERT_EQ(then.bytes[i], i >= 4096 && i < 3 * 4096 ? static_cast<std::byte>((i - 4096) / 7) : std::byte{0});
  }
  EXPECT_NE(told([&] { open_scratch(folder + "/none", kBytes); }, ErrorKind::bad_file).find("none"), std::string::npos);
  remove_all(real_io(), folder);
}

}  // namespace
}  // namespace tern
