#include "store/read_probe.h"

#include <time.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include "base/error.h"
#include "base/pages.h"
#include "store/extent_ring.h"

namespace tern {
namespace {

double process_seconds() {
  timespec t{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// As a ring's memory is taken: huge pages, which the system pins for a read in a fraction of the time. They are there when it returns.
using Memory = std::unique_ptr<std::byte, std::function<void(std::byte*)>>;
Memory ring_memory(size_t bytes, size_t alignment) {
  const size_t whole = (bytes + page_bytes() - 1) / page_bytes() * page_bytes();
  void* const pages = takes_pages() && alignment <= page_bytes() ? map_pages(whole) : nullptr;
  Memory memory =
      pages
          ? Memory(static_cast<std::byte*>(pages), [whole](std::byte* begin) { unmap_pages(begin, whole); })
          : Memory(
                static_cast<std::byte*>(std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment)),
                [](std::byte* begin) { std::free(begin); });
  if (!memory) throw Error(ErrorKind::does_not_fit, "no memory for a probe of the disk");
  std::memset(memory.get(), 0, bytes);
  return memory;
}

}  // namespace

ProbedRate probe_rate(BlockFiles& files, std::span<const Extent> extents, int threads, double seconds, Clock& clock) {
  if (extents.empty()) return {};
  // From a quarter on, each eleventh: what is read later anyway, but not in the order that is read first.
  std::vector<Extent> order;
  for (size_t step = 0; step < 11; ++step)
    for (size_t i = step; i < extents.size(); i += 11)
      order.push_back(extents[(i + extents.size() / 4) % extents.size()]);
  const RingSettings ring{.slots = threads + 1, .threads = threads, .cyclic = false};
  const int64_t bytes = CyclicRing::allocation_for(order, ring.slots, files.alignment());
  const Memory memory = ring_memory(static_cast<size_t>(bytes), static_cast<size_t>(files.alignment()));
  ProbedRate rate;
  const double begin_s = process_seconds();
  const int64_t begin_ns = clock.now_ns();
  CyclicRing reader(files, order, ring, {memory.get(), static_cast<size_t>(bytes)}, clock);
  for (int place = 0; place < reader.num_places() && rate.seconds < seconds; ++place) {
    rate.bytes += static_cast<int64_t>(ExtentLease(reader, place).bytes().size());
    rate.seconds = seconds_between(begin_ns, clock.now_ns());
  }
  rate.cpu_s = process_seconds() - begin_s;
  return rate;
}

double corrected_rate(const ProbedRate& probed, int64_t bytes, double seconds, double waited_s) {
  if (bytes < probed.bytes || seconds <= 0 || waited_s < 0.5 * seconds) return probed.bytes_per_s();
  return static_cast<double>(bytes) / seconds;
}

}  // namespace tern
