#include "store/extent_cache.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/rounding.h"
#include "store/read_extent.h"

namespace tern {
namespace {

// Short enough that several threads share the first item of a list, long enough for the disk's rate.
constexpr int64_t kPieceBytes = int64_t{1} << 20;

int64_t room_of(const CacheItem& item, int64_t alignment) {
  int64_t room = 0;
  for (const Extent& e : item.extents) room += room_for(e.bytes, alignment);
  return room;
}

std::vector<int64_t> slot_rooms(std::span<const CacheItem> items, size_t groups, int64_t alignment) {
  std::vector<int64_t> rooms(groups, 0);
  for (const CacheItem& item : items) {
    int64_t& room = rooms.at(static_cast<size_t>(item.group));
    room = std::max(room, room_of(item, alignment));
  }
  return rooms;
}

std::vector<int> groups_of(const std::vector<CacheItem>& items) {
  std::vector<int> groups;
  for (const CacheItem& item : items) groups.push_back(item.group);
  return groups;
}

int64_t bytes_of(const CacheItem& item) {
  int64_t bytes = 0;
  for (const Extent& e : item.extents) bytes += e.bytes;
  return bytes;
}

}  // namespace

std::vector<int64_t> ExtentCache::slot_bytes_of(std::span<const CacheItem> items, std::span<const int> slots,
                                                int64_t alignment) {
  const std::vector<int64_t> rooms = slot_rooms(items, slots.size(), alignment);
  std::vector<int64_t> each;
  for (size_t g = 0; g < slots.size(); ++g) each.insert(each.end(), static_cast<size_t>(slots[g]), rooms[g]);
  return each;
}

int64_t ExtentCache::bytes_for(std::span<const CacheItem> items, std::span<const int> slots, int64_t alignment) {
  const std::vector<int64_t> each = slot_bytes_of(items, slots, alignment);
  return std::accumulate(each.begin(), each.end(), int64_t{0});
}

int64_t ExtentCache::block_bytes_of(const CacheItem& item, int64_t alignment) {
  int64_t bytes = 0;
  for (const Extent& e : item.extents) bytes += blocks_of(e, alignment).bytes;
  return bytes;
}

ExtentCache::ExtentCache(BlockFiles& files, std::vector<CacheItem> items, const CacheSettings& settings, int threads,
                         std::span<std::byte> memory, Clock& clock)
    : files_(files), items_(std::move(items)), clock_(clock), decisions_(groups_of(items_), settings) {
  const int64_t alignment = files.alignment();
  TERN_CHECK(threads >= 1 && static_cast<int64_t>(memory.size()) >= bytes_for(items_, settings.slots, alignment) &&
                 reinterpret_cast<uintptr_t>(memory.data()) % static_cast<uintptr_t>(alignment) == 0,
             "ExtentCache: {} threads, {} bytes", threads, memory.size());
  std::byte* at = memory.data();
  for (const int64_t bytes : slot_bytes_of(items_, settings.slots, alignment)) slots_.push_back(at), at += bytes;
  stands_at_.assign(items_.size(), -1);
  for (size_t i = 0; i < items_.size(); ++i) {
    first_place_.push_back(static_cast<int>(item_at_.size()));
    item_at_.insert(item_at_.end(), items_[i].extents.size(), static_cast<int>(i));
  }
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { read_pieces(); });
}

ExtentCache::~ExtentCache() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  work_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

bool ExtentCache::may_read() const {
  if (next_ >= pieces_.size()) return false;
  const int after = reads_[pieces_[next_].read].after;
  return after < 0 || unused_at_[static_cast<size_t>(after)] == 0;
}

void ExtentCache::read_pieces() {
  std::unique_lock lock(mutex_);
  while (true) {
    work_.wait(lock, [this] { return stop_ || may_read(); });
    if (stop_) return;
    const Piece piece = pieces_[next_++];
    std::byte* const to = slots_[static_cast<size_t>(reads_[piece.read].slot)] + piece.offset;
    ++busy_;
    lock.unlock();
    ReadExtent read;
    std::exception_ptr error;
    const int64_t begin_ns = clock_.now_ns();
    try {
      read = read_extent(files_, piece.extent, {to, static_cast<size_t>(piece.room)});
    } catch (...) { error = std::current_exception(); }
    const int64_t end_ns = clock_.now_ns();
    lock.lock();
    --busy_;
    counts_.read_bytes += read.read;
    Read& whole = reads_[piece.read];  // a list ends when nobody reads for it
    if (error) whole.error = error;
    RingRead& record = whole.record;
    record.begin_ns = record.bytes > 0 ? std::min(record.begin_ns, begin_ns) : begin_ns;
    record.end_ns = std::max(record.end_ns, end_ns);
    record.bytes += round_up(read.read, files_.alignment());
    if (--whole.missing == 0 && records_ && !whole.error) recorded_.push_back(record);
    if (whole.missing == 0 || busy_ == 0) ready_.notify_all();
  }
}

// The extents of an item in pieces of whole blocks, so that threads share one item; bytes of an extent stand together.
void ExtentCache::add_pieces(size_t read) {
  const int64_t alignment = files_.alignment(), most = std::max(kPieceBytes, alignment);
  const size_t before = pieces_.size();
  int64_t begin = 0;
  for (const Extent& e : items_[static_cast<size_t>(reads_[read].item)].extents) {
    const BlockRange blocks = blocks_of(e, alignment);
    for (int64_t at = 0; at < blocks.bytes; at += most) {
      const int64_t room = std::min(most, blocks.bytes - at);
      const int64_t first = std::max(e.offset, blocks.offset + at);
      const int64_t end = std::min(e.offset + e.bytes, blocks.offset + at + room);
      pieces_.push_back({read, {e.file, first, end - first}, begin + at, room});
    }
    begin += room_for(e.bytes, alignment);
  }
  reads_[read].missing = static_cast<int64_t>(pieces_.size() - before);
}

// What the list before asked for and is not there whole: a product threw in between, or a read failed.
void ExtentCache::drop_unread() {
  for (const Read& read : reads_)
    if ((read.missing > 0 || read.error) && decisions_.slot_of(read.item) == read.slot) decisions_.forget(read.item);
  reads_.clear();
  pieces_.clear();
  next_ = 0;
}

void ExtentCache::end_list(std::unique_lock<std::mutex>& lock) {
  next_ = pieces_.size();
  ready_.wait(lock, [this] { return busy_ == 0; });
  drop_unread();
  for (const int item : list_) stands_at_[static_cast<size_t>(item)] = -1;
  list_.clear();
}

CacheDecisions ExtentCache::settled_decisions() {
  std::unique_lock lock(mutex_);
  end_list(lock);
  return decisions_;
}

void ExtentCache::want(std::span<const int> items) {
  std::unique_lock lock(mutex_);
  const int64_t asked_ns = records_ ? clock_.now_ns() : 0;
  end_list(lock);
  list_.assign(items.begin(), items.end());
  read_at_.assign(items.size(), -1);
  slot_at_.clear(), unused_at_.clear();
  first_turn_ = decisions_.hits().wanted;
  if (records_) events_.push_back({.list = list_, .at_ns = asked_ns});
  for (size_t p = 0; p < items.size(); ++p) {
    const CacheItem& item = items_[static_cast<size_t>(items[p])];
    stands_at_[static_cast<size_t>(items[p])] = static_cast<int>(p);
    slot_at_.push_back(decisions_.slot_of(items[p]));
    unused_at_.push_back(static_cast<int>(item.extents.size()));
    counts_.wanted_bytes += bytes_of(item);
  }
  for (const PlannedRead& planned : decisions_.want(items)) {
    const auto place = static_cast<size_t>(planned.place);
    slot_at_[place] = planned.slot;
    read_at_[place] = static_cast<int>(reads_.size());
    reads_.push_back({.item = items[place], .slot = planned.slot, .after = planned.after});
    reads_.back().record = {.place = items[place], .turn = first_turn_ + planned.place};
    add_pieces(reads_.size() - 1);
    counts_.missed_bytes += bytes_of(items_[static_cast<size_t>(items[place])]);
  }
  counts_.items = decisions_.hits();
  work_.notify_all();
}

std::span<const std::byte> ExtentCache::acquire(int place) {
  std::unique_lock lock(mutex_);
  const int item = item_at(place), stands = stands_at_[static_cast<size_t>(item)];
  TERN_CHECK(stands >= 0, "ExtentCache: item {} was not asked for", item);
  const int64_t asked_ns = records_ ? clock_.now_ns() : 0, turn = first_turn_ + stands;
  if (const int r = read_at_[static_cast<size_t>(stands)]; r >= 0) {
    const Read& read = reads_[static_cast<size_t>(r)];
    if (read.missing > 0) {
      const int64_t begin_ns = clock_.now_ns();
      ready_.wait(lock, [&] { return read.missing == 0; });
      counts_.waited_ns += clock_.now_ns() - begin_ns;
    }
    if (read.error) std::rethrow_exception(read.error);
  }
  if (records_ && (leases_.empty() || leases_.back().turn != turn))
    leases_.push_back({item, turn, asked_ns, clock_.now_ns(), 0});
  const std::vector<Extent>& extents = items_[static_cast<size_t>(item)].extents;
  const std::byte* at = slots_[static_cast<size_t>(slot_at_[static_cast<size_t>(stands)])];
  const auto nth = static_cast<size_t>(place - first_place(item));
  for (size_t e = 0; e < nth; ++e) at += room_for(extents[e].bytes, files_.alignment());
  return {at + blocks_of(extents[nth], files_.alignment()).skip, static_cast<size_t>(extents[nth].bytes)};
}

void ExtentCache::release(int place) noexcept {
  {
    const std::lock_guard lock(mutex_);
    const int stands = stands_at_[static_cast<size_t>(item_at(place))];
    --unused_at_[static_cast<size_t>(stands)];
    if (records_ && !leases_.empty() && leases_.back().turn == first_turn_ + stands)
      leases_.back().end_ns = clock_.now_ns();
  }
  work_.notify_all();
}

void ExtentCache::see(int item, double share) {
  const std::lock_guard lock(mutex_);
  decisions_.see(item, share);
  if (records_) events_.push_back({.list = {}, .item = item, .share = share});
}

CacheCounts ExtentCache::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

void ExtentCache::record(bool on) {
  const std::lock_guard lock(mutex_);
  records_ = on;
}

std::vector<ExtentCache::Event> ExtentCache::take_events() {
  const std::lock_guard lock(mutex_);
  return std::exchange(events_, {});
}

std::vector<RingRead> ExtentCache::take_reads() {
  const std::lock_guard lock(mutex_);
  return std::exchange(recorded_, {});
}

std::vector<RingLease> ExtentCache::take_leases() {
  const std::lock_guard lock(mutex_);
  return std::exchange(leases_, {});
}

}  // namespace tern
