#include "store/record_cache.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/rounding.h"
#include "store/read_extent.h"

namespace tern {
namespace {

// The same for all arrays of a table, so that layouts of the same records have the same runs.
int most_records(const RecordTable& t) {
  return static_cast<int>(std::max<int64_t>(1, RecordCache::kReadBytes / std::max<int64_t>(1, t.record_bytes())));
}

int64_t buffer_bytes(std::span<const RecordTable> tables, int64_t alignment) {
  int64_t most = 0;
  for (const RecordTable& t : tables)
    for (const RecordParts& parts : t.arrays) most = std::max(most, room_for(most_records(t) * parts.bytes, alignment));
  return most;
}

}  // namespace

int64_t RecordTable::record_bytes() const {
  int64_t bytes = 0;
  for (const RecordParts& parts : arrays) bytes += parts.bytes;
  return bytes;
}

std::vector<RecordRead> reads_of(const RecordTable& t, std::span<const int> missing, int most) {
  std::vector<RecordRead> reads;
  for (size_t begin = 0, end = 0; begin < missing.size(); begin = end) {
    for (end = begin + 1; end < missing.size() && missing[end] == missing[end - 1] + 1; ++end)
      if (static_cast<int>(end - begin) == most) break;
    const int first = missing[begin], count = static_cast<int>(end - begin);
    for (size_t a = 0; a < t.arrays.size(); ++a) {
      const RecordParts& parts = t.arrays[a];
      reads.push_back(
          {first, count, static_cast<int>(a), {parts.file, parts.offset + first * parts.bytes, count * parts.bytes}});
    }
  }
  return reads;
}

int64_t RecordCache::bytes_for(std::span<const RecordTable> tables, const RecordSettings& settings, int64_t alignment) {
  int64_t bytes = settings.threads * buffer_bytes(tables, alignment);
  for (const RecordTable& t : tables) bytes += settings.window.slots * t.record_bytes();
  return round_up(bytes, alignment);
}

RecordCache::RecordCache(BlockFiles& files, std::vector<RecordTable> tables, const RecordSettings& settings,
                         std::span<std::byte> memory)
    : files_(files), tables_(std::move(tables)) {
  const int64_t alignment = files.alignment(), buffer = buffer_bytes(tables_, alignment);
  TERN_CHECK(settings.threads >= 1 && std::ssize(memory) >= bytes_for(tables_, settings, alignment) &&
                 reinterpret_cast<uintptr_t>(memory.data()) % static_cast<uintptr_t>(alignment) == 0,
             "RecordCache: {} threads, {} bytes", settings.threads, memory.size());
  std::byte* at = memory.data() + settings.threads * buffer;
  for (const RecordTable& t : tables_) {
    decisions_.emplace_back(t.records, settings.window);
    slots_.push_back(at);
    at += settings.window.slots * t.record_bytes();
  }
  for (int i = 0; i < settings.threads; ++i)
    threads_.emplace_back(
        [this, own = memory.subspan(static_cast<size_t>(i * buffer), static_cast<size_t>(buffer))] { read_jobs(own); });
}

RecordCache::~RecordCache() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  work_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

std::byte* RecordCache::slot(int table, int record) const {
  const auto t = static_cast<size_t>(table);
  const int number = decisions_[t].slot_of(record);
  TERN_CHECK(number >= 0, "RecordCache: record {} of table {} was not wanted", record, table);
  return slots_[t] + number * tables_[t].record_bytes();
}

const std::byte* RecordCache::record(int table, int record) const { return slot(table, record); }

// Reads to the buffer, and from there to the slots: a read covers whole blocks and several records.
void RecordCache::read_one(const RecordRead& read, std::span<std::byte> buffer, int64_t& bytes) {
  const ReadExtent got = read_extent(files_, read.extent, buffer);
  bytes = round_up(got.read, files_.alignment());
  const RecordTable& t = tables_[static_cast<size_t>(table_)];
  int64_t within = 0;
  for (int a = 0; a < read.array; ++a) within += t.arrays[static_cast<size_t>(a)].bytes;
  const int64_t part = t.arrays[static_cast<size_t>(read.array)].bytes;
  for (int i = 0; i < read.count; ++i)
    std::memcpy(slot(table_, read.first + i) + within, got.bytes.data() + i * part, static_cast<size_t>(part));
}

void RecordCache::read_jobs(std::span<std::byte> buffer) {
  std::unique_lock lock(mutex_);
  while (true) {
    work_.wait(lock, [this] { return stop_ || next_ < jobs_.size(); });
    if (stop_) return;
    const RecordRead read = jobs_[next_++];
    lock.unlock();
    int64_t bytes = 0;
    std::exception_ptr error;
    try {
      read_one(read, buffer, bytes);
    } catch (...) { error = std::current_exception(); }
    lock.lock();
    counts_.read_bytes += bytes;
    if (error) error_ = error;
    if (--unfinished_ == 0) done_.notify_all();
  }
}

void RecordCache::want(int table, std::span<const int> records) {
  const auto t = static_cast<size_t>(table);
  const RecordTable& of = tables_[t];
  const std::span<const int> missing = decisions_[t].want(records);
  counts_.wanted_bytes += std::ssize(records) * of.record_bytes();
  counts_.missed_bytes += std::ssize(missing) * of.record_bytes();
  if (missing.empty()) return;
  std::unique_lock lock(mutex_);
  table_ = table;
  jobs_ = reads_of(of, missing, most_records(of));
  next_ = 0, unfinished_ = jobs_.size(), error_ = nullptr;
  counts_.reads += std::ssize(jobs_);
  work_.notify_all();
  done_.wait(lock, [this] { return unfinished_ == 0; });
  if (!error_) return;
  decisions_[t].forget_all();
  std::rethrow_exception(error_);
}

RecordCounts RecordCache::counts() const {
  RecordCounts all = counts_;  // no read is on its way between two calls of want
  for (const WindowDecisions& d : decisions_) {
    all.records.wanted += d.counts().wanted;
    all.records.hits += d.counts().hits;
    all.records.shortened += d.counts().shortened;
  }
  return all;
}

}  // namespace tern
