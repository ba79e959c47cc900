#pragma once
// Which way of reading some files is the fastest on their disk now: io_uring or threads. Both are measured.

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "store/block_files.h"
#include "store/extent.h"
#include "store/read_probe.h"

namespace tern {

/// One way to read, as it was measured.
struct ProbedReader {
  std::string_view name;  // of the way: "direct", "buffered", "io_uring"
  int threads = 0;
  ProbedRate rate;
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
