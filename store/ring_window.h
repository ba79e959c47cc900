#pragma once
// What a ring holds at a time, counted in blocks of neighbouring extents: how far it reads ahead, what it lends at once, and what it gives back
// together. Arithmetic alone; the ring (store/extent_ring.h), its twin on the virtual clock (store/pass_time.h) and the list of a step
// (program/inference_program.h) all follow it.

#include <cstdint>
#include <span>
#include <vector>

namespace tern {

/// A window over the blocks of a cyclic order. Of single extents, four of them: {.resident = 4}.
struct RingWindow {
  std::vector<int> blocks;  // the number of extents of each block, in order; empty: each extent is a block
  int resident = 0;         // the most blocks that are in memory or on their way there
  // Blocks that are given back together, counted from the begin of each pass on; the last of a pass may be fewer.
  int step = 1;
  friend bool operator==(const RingWindow&, const RingWindow&) = default;
};

/// The largest sum of what blocks have, one entry for each, over those that the window holds at a time.
int64_t most_at_a_time(const RingWindow&, std::span<const int64_t> of_blocks);
/// The slots that the window needs: the most extents that it holds at a time.
int slots_for(const RingWindow&);

/// The window on turns (place + pass · places). A turn is used when it is acquired and released.
class RingTurns {
 public:
  /// Errors: TERN_CHECK: blocks that are not of so many places, or are empty; step < 1; resident < step, of which no block would ever be read.
  RingTurns(const RingWindow&, int num_places);
  /// Turns before this one may be read if all before `use` were used, and `use` was not.
  int64_t read_end(int64_t use) const;
  /// The first of all turns behind whose use `turn` may be read; −1: from the begin on. So read_end(use) > turn where use > freed_by(turn).
  int64_t freed_by(int64_t turn) const;
  /// A block is lent as a whole: `turn` may be used once all turns before this one are there.
  int64_t lent_end(int64_t turn) const { return begin_of(block_of(turn) + 1); }

 private:
  int64_t block_of(int64_t turn) const;
  int64_t begin_of(int64_t block) const;
  int64_t places_, blocks_, resident_, step_;
  std::vector<int64_t> begin_, block_;  // the first place of each block; the block of each place
};

}  // namespace tern
