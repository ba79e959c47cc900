#include "store/choose_reader.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "store/uring_reads.h"

namespace tern {

size_t best_reader(std::span<const ProbedReader> readers) {
  double fastest = 0;
  for (const ProbedReader& r : readers) fastest = std::max(fastest, r.rate.bytes_per_s());
  size_t best = readers.size();
  for (size_t i = 0; i < readers.size(); ++i)
    if (readers[i].rate.bytes_per_s() >= 0.97 * fastest &&
        (best == readers.size() || readers[i].rate.cpu_s_per_gb() < readers[best].rate.cpu_s_per_gb()))
      best = i;
  return best;
}

namespace {

constexpr int kUringThreads = 2;  // so that one reads while the other's last short reads come
constexpr int kTurns = 2;

// Every `parts`-th extent from `part` on: no turn reads what another has read, which a disk might remember.
std::vector<Extent> part_of(std::span<const Extent> extents, size_t part, size_t parts) {
  if (extents.size() < parts) return {extents.begin(), extents.end()};
  std::vector<Extent> some;
  for (size_t i = part; i < extents.size(); i += parts) some.push_back(extents[i]);
  return some;
}

}  // namespace

ChosenReader choose_reader(const std::vector<std::string>& paths, std::span<const Extent> extents, int threads,
                           double seconds) {
  ChosenReader choice;
  std::vector<std::unique_ptr<BlockFiles>> ways;
  OpenedBlocks by_threads = open_blocks(paths);
  choice.note = by_threads.note;
  ways.push_back(std::move(by_threads.files));
  choice.probed.push_back({.name = name_of(by_threads.way), .threads = threads});
  if (by_threads.way == ReadWay::direct) {
    OpenedUring uring = open_uring_blocks(paths);
    choice.note = uring.refusal;
    if (uring.files) {
      ways.push_back(std::move(uring.files));
      choice.probed.push_back({.name = "io_uring", .threads = std::min(threads, kUringThreads)});
    }
  }
  const size_t parts = ways.size() * kTurns;
  for (size_t turn = 0; turn < parts; ++turn) {
    ProbedReader& reader = choice.probed[turn % ways.size()];
    const ProbedRate rate = probe_rate(*ways[turn % ways.size()], part_of(extents, turn, parts), reader.threads,
                                       seconds / static_cast<double>(parts));
    reader.rate.bytes += rate.bytes, reader.rate.seconds += rate.seconds, reader.rate.cpu_s += rate.cpu_s;
  }
  choice.chosen = best_reader(choice.probed);
  choice.files = std::move(ways[choice.chosen]);
  return choice;
}

}  // namespace tern
