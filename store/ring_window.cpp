#include "store/ring_window.h"

#include <algorithm>

#include "base/error.h"

namespace tern {

int64_t most_at_a_time(const RingWindow& window, std::span<const int64_t> of_blocks) {
  int64_t most = 0;
  // A window begins where blocks are given back.
  for (size_t first = 0; first < of_blocks.size(); first += static_cast<size_t>(window.step)) {
    int64_t sum = 0;
    for (size_t b = 0; b < static_cast<size_t>(window.resident); ++b) sum += of_blocks[(first + b) % of_blocks.size()];
    most = std::max(most, sum);
  }
  return most;
}

int slots_for(const RingWindow& window) {
  if (window.blocks.empty()) return window.resident;
  return static_cast<int>(most_at_a_time(window, std::vector<int64_t>(window.blocks.begin(), window.blocks.end())));
}

RingTurns::RingTurns(const RingWindow& window, int num_places)
    : places_(num_places), blocks_(0), resident_(window.resident), step_(window.step) {
  TERN_CHECK(step_ >= 1 && resident_ >= step_, "RingTurns: {} blocks, {} of them at a time", resident_, step_);
  int64_t place = 0;
  const auto add = [&](int extents) {
    TERN_CHECK(extents >= 1, "RingTurns: block {} is empty", blocks_);
    begin_.push_back(place);
    block_.insert(block_.end(), static_cast<size_t>(extents), blocks_++);
    place += extents;
  };
  if (window.blocks.empty())
    for (int i = 0; i < num_places; ++i) add(1);
  else
    for (const int extents : window.blocks) add(extents);
  TERN_CHECK(place == places_, "RingTurns: blocks of {} places, there are {}", place, places_);
}

int64_t RingTurns::block_of(int64_t turn) const {
  return turn / places_ * blocks_ + block_[static_cast<size_t>(turn % places_)];
}
int64_t RingTurns::begin_of(int64_t block) const {
  return block / blocks_ * places_ + begin_[static_cast<size_t>(block % blocks_)];
}

int64_t RingTurns::read_end(int64_t use) const {
  const int64_t block = block_of(use), within = block % blocks_;
  return begin_of(block - within % step_ + resident_);
}

int64_t RingTurns::freed_by(int64_t turn) const {
  // Blocks that must have been given back before this one may be read: whole steps of them, or the rest of a pass.
  const int64_t before = block_of(turn) + 1 - resident_;
  if (before <= 0) return -1;
  const int64_t within = before % blocks_;
  const int64_t given_back = before - within + std::min((within + step_ - 1) / step_ * step_, blocks_);
  return begin_of(given_back) - 1;
}

}  // namespace tern
