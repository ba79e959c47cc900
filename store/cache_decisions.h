#pragma once
// Decides which items stay in slots that are too few for all, where each use asks for some of the items. It reads no byte: the
// cache that reads (store/extent_cache.h) follows these decisions, so hits and bytes can be told beforehand.

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace tern {

/// score: the item with the least score goes; a score is a fading mean of the item's shares (see()). lru: what was used longest ago goes.
enum class CachePolicy : uint8_t { score, lru };
std::string_view name_of(CachePolicy);

struct CacheSettings {
  std::vector<int> slots;  // of each group of items
  CachePolicy policy = CachePolicy::score;
  double fade = 0.1;  // of a score, with each new share
};

/// One item that is to be read. It may begin when the item at place `after` of the same list is released; -1: at once.
/// `replaces`: the item whose slot it takes; -1: the slot is empty.
struct PlannedRead {
  int place = 0, slot = 0, after = -1, replaces = -1;
};

/// Counts over all lists so far.
struct CacheHits {
  int64_t wanted = 0, hits = 0;
  double rate() const { return wanted > 0 ? static_cast<double>(hits) / static_cast<double>(wanted) : 0; }
};

/// Items 0, 1, … of groups 0, 1, …; the slots of a group hold its items alone.
/// Source  the score: HybriMoE (Zhong et al. 2025, arXiv:2504.05897, recalled): an item's score fades towards the share that
///         the router gives it. The rule for lists longer than the slots: ours.
/// Order   the same decisions for the same lists and shares; equal scores go by their last use.
class CacheDecisions {
 public:
  CacheDecisions(std::vector<int> group_of, CacheSettings);
  /// Decides for a list: items in the order of their use, each once. A missing item takes the first of these slots that there is: an
  /// empty one; that of the worst item not listed; that of the first listed item whose turn has passed; that of the listed item whose
  /// turn comes last. In the last case that item is no hit any more: it will be read for its own turn. Otherwise a listed item that is
  /// there stays until its turn has passed. So an item is read at most once for a list.
  std::vector<PlannedRead> want(std::span<const int> items);
  /// Moves the item's score towards `share`.
  void see(int item, double share);
  /// The item's slot after the list; -1: it has none.
  int slot_of(int item) const { return slot_of_[static_cast<size_t>(item)]; }
  /// The item's slot is empty: its read failed, or never came.
  void forget(int item);
  CacheHits hits() const { return hits_; }
  const CacheSettings& settings() const { return settings_; }

 private:
  struct Slot {
    int group = 0, item = -1;
  };
  int victim(int group, int place) const;
  bool goes_before(int item, int other) const;

  std::vector<int> group_of_, slot_of_, place_of_;  // place_of_: in the list at hand; -1: not in it
  std::vector<double> score_;
  std::vector<int64_t> last_use_;
  std::vector<Slot> slots_;
  CacheSettings settings_;
  int64_t uses_ = 0;
  CacheHits hits_;
};

}  // namespace tern
