#pragma once
// The ring on a virtual clock: when each extent arrives and each product ends, if the disk reads one extent after the other
// and products follow each other. The judge of residency and the prediction of a token's time.

#include <cstdint>
#include <span>
#include <vector>

#include "store/ring_window.h"

namespace tern {

/// One step of a pass, in order: a product, and what must be read for it.
struct PassStep {
  int64_t load_ps = 0;     // 0: resident
  int64_t forward_ps = 0;  // of its product
};

struct PassTimes {
  std::vector<int64_t> load_end_ps, forward_end_ps;  // of each step of each pass, one pass behind the other
  int64_t end_ps = 0;                                // of the last product
};

/// `passes` passes over `steps` through a ring with this window, from an empty ring on.
///   load   begins when the disk is free and the window allows it (RingTurns::freed_by): of single extents, once the product that stands
///          as many streamed steps earlier as there are slots has ended
///   product begins when the one before has ended and its block is there
/// Of n equal streamed steps: slots 1: n·(load + forward); slots ≥ 2: load + (n − 1)·max(load, forward) + forward. Of n equal blocks of m of them: the
/// same of blocks, whose load and forward are m times as long.
PassTimes pass_times(std::span<const PassStep> steps, const RingWindow&, int passes = 1);
/// With a window of single extents for so many slots.
PassTimes pass_times(std::span<const PassStep> steps, int slots, int passes = 1);

/// The time of one pass in a long sequence: the distance between the ends of two passes once the ring has filled.
int64_t steady_pass_ps(std::span<const PassStep> steps, const RingWindow&);
int64_t steady_pass_ps(std::span<const PassStep> steps, int slots);

}  // namespace tern
