#pragma once
// Records of a file, such as the weights of a model's neurons, that are read when a set of them is wanted and kept while one of the
// last sets wanted them. Neighbours in the file that are missing together are one read.

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "store/block_files.h"
#include "store/extent.h"
#include "store/window_decisions.h"

namespace tern {

/// One part of each record of a table. Part i begins at offset + i·bytes.
struct RecordParts {
  int file = 0;
  int64_t offset = 0, bytes = 0;
};
/// Records 0, 1, … of which each consists of one part of every array: of one array if its bytes stand together in the file.
struct RecordTable {
  int records = 0;
  std::vector<RecordParts> arrays;
  int64_t record_bytes() const;
};

/// The reads of records, ascending, that are missing together: of each run of neighbours one extent of every array, at most `most` records
/// long.
struct RecordRead {
  int first = 0, count = 0, array = 0;  // records [first, first + count)
  Extent extent;
};
std::vector<RecordRead> reads_of(const RecordTable&, std::span<const int> missing, int most);

/// Counts over all sets so far.
struct RecordCounts {
  WindowCounts records;
  int64_t wanted_bytes = 0, missed_bytes = 0;  // of the records of all sets, and of those that were not there
  int64_t reads = 0;                           // of the file, each of whole blocks
  int64_t read_bytes = 0;                      // of those blocks
};

struct RecordSettings {
  WindowSettings window;  // of each table
  int threads = 8;        // that read: so many reads are on their way at once
};

class RecordCache {
 public:
  /// The most bytes of a record that one read covers; a longer run of neighbours is several reads.
  static constexpr int64_t kReadBytes = int64_t{256} << 10;
  /// Bytes that the cache takes: its slots, and a buffer for each thread.
  static int64_t bytes_for(std::span<const RecordTable>, const RecordSettings&, int64_t alignment);
  /// `memory`: bytes_for of them, from a multiple of the alignment on; it outlives the cache, as `files` does.
  RecordCache(BlockFiles& files, std::vector<RecordTable>, const RecordSettings&, std::span<std::byte> memory);
  ~RecordCache();
  RecordCache(const RecordCache&) = delete;
  RecordCache& operator=(const RecordCache&) = delete;

  /// Returns when all these records of a table, ascending, are there. They stay until the next set of the table is wanted.
  /// Errors: those of WindowDecisions::want and of read_extent; after the latter the table's slots are empty.
  void want(int table, std::span<const int> records);
  /// A record that the last set of its table wanted: its parts, one behind the other.
  const std::byte* record(int table, int record) const;
  RecordCounts counts() const;
  const RecordTable& table(int t) const { return tables_[static_cast<size_t>(t)]; }

 private:
  void read_jobs(std::span<std::byte> buffer);
  void read_one(const RecordRead&, std::span<std::byte> buffer, int64_t& bytes);
  std::byte* slot(int table, int record) const;

  BlockFiles& files_;
  std::vector<RecordTable> tables_;
  std::vector<WindowDecisions> decisions_;
  std::vector<std::byte*> slots_;  // the first of each table
  RecordCounts counts_;
  // The set at hand: its reads, which of them are begun, and how many are not finished. Under mutex_.
  std::mutex mutex_;
  std::condition_variable work_, done_;
  int table_ = 0;
  std::vector<RecordRead> jobs_;
  size_t next_ = 0, unfinished_ = 0;
  std::exception_ptr error_;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace tern
