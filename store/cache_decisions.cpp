#include "store/cache_decisions.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace tern {

std::string_view name_of(CachePolicy policy) { return policy == CachePolicy::score ? "score" : "lru"; }

CacheDecisions::CacheDecisions(std::vector<int> group_of, CacheSettings settings)
    : group_of_(std::move(group_of)), settings_(std::move(settings)) {
  slot_of_.assign(group_of_.size(), -1);
  place_of_ = slot_of_;
  score_.assign(group_of_.size(), 0);
  last_use_.assign(group_of_.size(), 0);
  for (size_t g = 0; g < settings_.slots.size(); ++g) {
    TERN_CHECK(settings_.slots[g] >= 1, "CacheDecisions: {} slots of group {}", settings_.slots[g], g);
    slots_.insert(slots_.end(), static_cast<size_t>(settings_.slots[g]), {static_cast<int>(g), -1});
  }
  for (const int g : group_of_)
    TERN_CHECK(0 <= g && g < static_cast<int>(settings_.slots.size()), "CacheDecisions: group {} of {}", g,
               settings_.slots.size());
}

bool CacheDecisions::goes_before(int item, int other) const {
  const auto a = static_cast<size_t>(item), b = static_cast<size_t>(other);
  if (settings_.policy == CachePolicy::score && score_[a] != score_[b]) return score_[a] < score_[b];
  return last_use_[a] < last_use_[b];
}

// The slot for what stands at `place` of the list.
int CacheDecisions::victim(int group, int place) const {
  int worst = -1, done = -1, last = -1;
  const auto item_in = [&](int slot) { return slots_[static_cast<size_t>(slot)].item; };
  const auto place_in = [&](int slot) { return place_of_[static_cast<size_t>(item_in(slot))]; };
  for (int s = 0; s < static_cast<int>(slots_.size()); ++s) {
    if (slots_[static_cast<size_t>(s)].group != group) continue;
    if (item_in(s) < 0) return s;
    if (place_in(s) < 0) {
      if (worst < 0 || goes_before(item_in(s), item_in(worst))) worst = s;
    } else if (place_in(s) < place) {
      if (done < 0 || place_in(s) < place_in(done)) done = s;
    } else if (last < 0 || place_in(s) > place_in(last)) {
      last = s;
    }
  }
  return worst >= 0 ? worst : done >= 0 ? done : last;
}

std::vector<PlannedRead> CacheDecisions::want(std::span<const int> items) {
  for (size_t p = 0; p < items.size(); ++p) {
    int& place = place_of_[static_cast<size_t>(items[p])];
    TERN_CHECK(place < 0, "CacheDecisions: item {} is asked for twice", items[p]);
    place = static_cast<int>(p);
  }
  std::vector<PlannedRead> reads;
  for (size_t p = 0; p < items.size(); ++p) {
    const auto item = static_cast<size_t>(items[p]);
    ++hits_.wanted;
    last_use_[item] = ++uses_;
    if (slot_of_[item] >= 0) {
      ++hits_.hits;
      continue;
    }
    const auto place = static_cast<int>(p);
    const int s = victim(group_of_[item], place);
    Slot& slot = slots_[static_cast<size_t>(s)];
    PlannedRead read{.place = place, .slot = s, .replaces = slot.item};
    if (slot.item >= 0) {
      const int before = place_of_[static_cast<size_t>(slot.item)];
      if (0 <= before && before < place) read.after = before;
      slot_of_[static_cast<size_t>(slot.item)] = -1;
    }
    slot.item = items[p];
    slot_of_[item] = s;
    reads.push_back(read);
  }
  for (const int item : items) place_of_[static_cast<size_t>(item)] = -1;
  return reads;
}

void CacheDecisions::see(int item, double share) {
  double& score = score_[static_cast<size_t>(item)];
  score += settings_.fade * (share - score);
}

void CacheDecisions::forget(int item) {
  int& slot = slot_of_[static_cast<size_t>(item)];
  if (slot >= 0) slots_[static_cast<size_t>(slot)].item = -1;
  slot = -1;
}

}  // namespace tern
