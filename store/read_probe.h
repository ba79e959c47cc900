#pragma once
// The rate at which the disk that holds some files can be read now.

#include <cstdint>
#include <span>

#include "base/clock.h"
#include "store/block_files.h"
#include "store/extent.h"

namespace tern {

struct ProbedRate {
  int64_t bytes = 0;  // bytes that the probe read
  double seconds = 0;
  double bytes_per_s() const { return seconds > 0 ? static_cast<double>(bytes) / seconds : 0; }
};
/// Reads some of the extents, spread evenly over all, with `threads` threads as a ring does, until `seconds` have passed or
/// each was read once. Memory: threads + 1 times the largest extent with its blocks, freed at the end. Errors: those of
/// read_extent.
ProbedRate probe_rate(BlockFiles&, std::span<const Extent>, int threads, double seconds, Clock& = real_clock());

}  // namespace tern
