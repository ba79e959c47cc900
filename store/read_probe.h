#pragma once
// The rate at which the disk that holds some files can be read now.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

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

/// One way to read, as it was measured.
struct ProbedReader {
  std::string_view name;  // of the way: "direct", "buffered", "io_uring"
  int threads = 0;
  ProbedRate rate;
  double cpu_s = 0;  // of the whole process meanwhile
  double cpu_s_per_gb() const { return rate.bytes > 0 ? cpu_s / (1e-9 * static_cast<double>(rate.bytes)) : 0; }
};
/// The one to take: the fastest, but of those within 3 % of it the one that takes least of the processor. The first of equal ones.
size_t best_reader(std::span<const ProbedReader>);

struct ChosenReader {
  std::unique_ptr<BlockFiles> files;
  std::string note;                  // why a way was not tried; else empty
  std::vector<ProbedReader> probed;  // all that these files can be read by, in the order in which they were tried
  size_t chosen = 0;
  const ProbedReader& reader() const { return probed[chosen]; }
};
/// Tries io_uring and threads in turns on parts of these extents, each for half of `seconds`, and opens the files the better way. What
/// is refused is not tried: `note` says why. Errors: those of open_blocks and read_extent.
ChosenReader choose_reader(const std::vector<std::string>& paths, std::span<const Extent>, int threads, double seconds);

}  // namespace tern
