#pragma once
// The rate at which the disk that holds some files can be read now.

#include <cstdint>
#include <span>
#include <vector>

#include "base/clock.h"
#include "store/block_files.h"
#include "store/extent.h"
#include "store/extent_cache.h"

namespace tern {

struct ProbedRate {
  int64_t bytes = 0;  // bytes that the probe read
  double seconds = 0;
  double cpu_s = 0;  // of the whole process meanwhile
  double bytes_per_s() const { return seconds > 0 ? static_cast<double>(bytes) / seconds : 0; }
  double cpu_s_per_gb() const { return bytes > 0 ? cpu_s / (1e-9 * static_cast<double>(bytes)) : 0; }
};
/// Reads some of the extents, spread evenly over all, with `threads` threads as a ring does, until `seconds` have passed or
/// each was read once. Memory: threads + 1 times the largest extent with its blocks, freed at the end. Errors: those of
/// read_extent.
ProbedRate probe_rate(BlockFiles&, std::span<const Extent>, int threads, double seconds, Clock& = real_clock());

/// Reads items as a cache does for a mixture, list by list: rests for `rest_s`, which does not count, asks for `at_once` items of each group
/// together, and waits until all are there, which counts. It ends when `seconds` are counted, four times as long has passed, or each item was
/// read once. Memory: at_once slots for each group, freed at the end. Errors: those of read_extent.
ProbedRate probe_lists(BlockFiles&, const std::vector<CacheItem>&, int at_once, double rest_s, int threads,
                       double seconds, Clock& = real_clock());

/// The rate to go by after `bytes` more bytes were read in `seconds`, `waited_s` of which were spent only waiting for the disk. If `bytes` is at
/// least what the probe read, and at least half of `seconds` was waiting: bytes / seconds. Otherwise the probe's rate.
double corrected_rate(const ProbedRate&, int64_t bytes, double seconds, double waited_s);

}  // namespace tern
