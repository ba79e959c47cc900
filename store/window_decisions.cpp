#include "store/window_decisions.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace tern {

WindowDecisions::WindowDecisions(int records, WindowSettings settings) : settings_(settings) {
  TERN_CHECK(records >= 0 && settings.uses >= 0 && settings.slots >= 0,
             "WindowDecisions: {} records, {} uses, {} slots", records, settings.uses, settings.slots);
  slot_of_.assign(static_cast<size_t>(records), -1);
  last_use_.assign(static_cast<size_t>(records), -1);
  forget_all();
}

void WindowDecisions::forget_all() {
  std::ranges::fill(slot_of_, -1);
  oldest_ += std::ssize(sets_);
  sets_.clear();
  free_.resize(static_cast<size_t>(settings_.slots));
  std::iota(free_.rbegin(), free_.rend(), 0);  // slot 0 is taken first
}

void WindowDecisions::drop_oldest_set() {
  for (const int record : sets_.front()) {
    int& slot = slot_of_[static_cast<size_t>(record)];
    if (slot < 0 || last_use_[static_cast<size_t>(record)] != oldest_) continue;  // a later set wants it
    free_.push_back(slot);
    slot = -1;
  }
  sets_.pop_front();
  ++oldest_;
}

std::span<const int> WindowDecisions::want(std::span<const int> records) {
  if (std::ssize(records) > settings_.slots)
    throw Error(
        ErrorKind::does_not_fit,
        "WindowDecisions: {} records are wanted at once, and {} have room; give the cache at least as many slots",
        records.size(), settings_.slots);
  TERN_CHECK(std::ranges::adjacent_find(records, std::ranges::greater_equal()) == records.end(),
             "WindowDecisions: records do not ascend");
  if (settings_.uses == 0) forget_all();
  const int64_t use = oldest_ + std::ssize(sets_);
  missing_.clear();
  for (const int record : records) {
    if (slot_of(record) < 0) missing_.push_back(record);
    last_use_[static_cast<size_t>(record)] = use;
  }
  sets_.emplace_back(records.begin(), records.end());
  while (std::ssize(sets_) > std::max(settings_.uses, 1)) drop_oldest_set();
  if (missing_.size() > free_.size()) ++counts_.shortened;
  while (missing_.size() > free_.size()) drop_oldest_set();  // never this one: it has room
  for (const int record : missing_) {
    slot_of_[static_cast<size_t>(record)] = free_.back();
    free_.pop_back();
  }
  counts_.wanted += std::ssize(records);
  counts_.hits += std::ssize(records) - std::ssize(missing_);
  return missing_;
}

}  // namespace tern
