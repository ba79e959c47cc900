#pragma once
// What the disk of some files gives now.

#include <cstdint>
#include <span>

#include "base/clock.h"
#include "store/block_files.h"
#include "store/extent.h"

namespace tern {

struct ProbedRate {
  int64_t bytes = 0;  // read for it
  double seconds = 0;
  double bytes_per_s() const { return seconds > 0 ? static_cast<double>(bytes) / seconds : 0; }
};
/// Reads extents spread over all of them, as a ring of `threads` threads does, until `seconds` have passed or each was read
/// once. Memory  threads times the largest extent, given back. Errors: those of read_extent.
ProbedRate probe_rate(BlockFiles&, std::span<const Extent>, int threads, double seconds, Clock& = real_clock());

}  // namespace tern
