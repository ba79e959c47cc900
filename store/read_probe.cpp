#include "store/read_probe.h"

#include <cstdlib>
#include <memory>
#include <vector>

#include "store/extent_ring.h"

namespace tern {

ProbedRate probe_rate(BlockFiles& files, std::span<const Extent> extents, int threads, double seconds, Clock& clock) {
  if (extents.empty()) return {};
  // From a quarter on, each eleventh: what is read later anyway, but not in the order that is read first.
  std::vector<Extent> order;
  for (size_t step = 0; step < 11; ++step)
    for (size_t i = step; i < extents.size(); i += 11)
      order.push_back(extents[(i + extents.size() / 4) % extents.size()]);
  const RingSettings ring{.slots = threads + 1, .threads = threads, .cyclic = false};
  const int64_t bytes = CyclicRing::bytes_for(order, ring.slots, files.alignment());
  const std::unique_ptr<std::byte, decltype(&std::free)> memory(
      static_cast<std::byte*>(std::aligned_alloc(static_cast<size_t>(files.alignment()), static_cast<size_t>(bytes))),
      &std::free);
  ProbedRate rate;
  const int64_t begin_ns = clock.now_ns();
  CyclicRing reader(files, order, ring, {memory.get(), static_cast<size_t>(bytes)}, clock);
  for (int place = 0; place < reader.num_places() && rate.seconds < seconds; ++place) {
    rate.bytes += static_cast<int64_t>(ExtentLease(reader, place).bytes().size());
    rate.seconds = seconds_between(begin_ns, clock.now_ns());
  }
  return rate;
}

}  // namespace tern
