#pragma once
// Decides which records stay in slots where each use wants a set of them and the sets of neighbouring uses overlap: those of the
// last uses. It reads no byte: the cache that reads (store/record_cache.h) follows these decisions.

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

namespace tern {

struct WindowSettings {
  int uses = 5;   // k: what one of the last k sets wanted stays; 0: nothing outlives its use
  int slots = 0;  // records that have room
};

/// Counts over all uses so far. shortened: uses at which the union of the last k sets had no room.
struct WindowCounts {
  int64_t wanted = 0, hits = 0, shortened = 0;
};

/// Source  the window: LLM in a flash (Alizadeh et al. 2023, arXiv:2312.11514, section 3.1, recalled). What gives way where the union
///         of k sets has no room: ours.
/// Order   the same decisions for the same sets.
class WindowDecisions {
 public:
  WindowDecisions(int records, WindowSettings);
  /// Decides for the next use, which wants these records, ascending. Hits are those that one of the k sets before wanted, and
  /// that still have a slot. Returns the others, ascending, which are to be read: each has a slot behind the call. Slots then hold the union of the
  /// last k sets, this one included. Where that has no room, the oldest sets leave before their time. The span is good until the next call.
  /// Errors  does_not_fit: the set alone has more records than there are slots; nothing has changed.
  std::span<const int> want(std::span<const int> records);
  /// -1: the record has none.
  int slot_of(int record) const { return slot_of_[static_cast<size_t>(record)]; }
  int num_kept() const { return settings_.slots - static_cast<int>(free_.size()); }
  /// All slots are empty, as if no set had been wanted: a read failed. Counts go on.
  void forget_all();
  const WindowCounts& counts() const { return counts_; }

 private:
  void drop_oldest_set();

  WindowSettings settings_;
  std::vector<int> slot_of_, free_, missing_;
  std::vector<int64_t> last_use_;  // of each record, the number of the last use that wanted it
  std::deque<std::vector<int>> sets_;
  int64_t oldest_ = 0;  // the use of sets_.front()
  WindowCounts counts_;
};

}  // namespace tern
