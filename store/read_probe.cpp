#include "store/read_probe.h"

#include <time.h>

#include <algorithm>
#include <cmath>
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

// 0 to count − 1: from a quarter on, each eleventh. So what is read later anyway comes, but not in the order that is read first.
std::vector<size_t> spread(size_t count) {
  std::vector<size_t> order;
  for (size_t step = 0; step < 11; ++step)
    for (size_t i = step; i < count; i += 11) order.push_back((i + count / 4) % count);
  return order;
}

// Lists of up to `at_once` items of each group, group by group.
std::vector<std::vector<int>> lists_of(const std::vector<CacheItem>& items, size_t groups, size_t at_once) {
  std::vector<std::vector<int>> of_group(groups), lists;
  for (size_t i = 0; i < items.size(); ++i)
    of_group[static_cast<size_t>(items[i].group)].push_back(static_cast<int>(i));
  for (const std::vector<int>& members : of_group) {
    const std::vector<size_t> order = spread(members.size());
    lists.resize(std::max(lists.size(), (order.size() + at_once - 1) / at_once));
    for (size_t i = 0; i < order.size(); ++i) lists[i / at_once].push_back(members[order[i]]);
  }
  return lists;
}

}  // namespace

ProbedRate probe_rate(BlockFiles& files, std::span<const Extent> extents, int threads, double seconds, Clock& clock) {
  if (extents.empty()) return {};
  std::vector<Extent> order;
  for (const size_t i : spread(extents.size())) order.push_back(extents[i]);
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

ProbedRate probe_lists(BlockFiles& files, const std::vector<CacheItem>& items, int at_once, double rest_s, int threads,
                       double seconds, Clock& clock) {
  ProbedRate rate;
  int groups = 0;
  for (const CacheItem& item : items) groups = std::max(groups, item.group + 1);
  const CacheSettings settings{.slots = std::vector<int>(static_cast<size_t>(groups), at_once)};
  const int64_t bytes = ExtentCache::bytes_for(items, settings.slots, files.alignment());
  if (items.empty()) return rate;
  const Memory memory = ring_memory(static_cast<size_t>(bytes), static_cast<size_t>(files.alignment()));
  ExtentCache cache(files, items, settings, threads, {memory.get(), static_cast<size_t>(bytes)}, clock);
  const int64_t start_ns = clock.now_ns();
  for (const std::vector<int>& list : lists_of(items, static_cast<size_t>(groups), static_cast<size_t>(at_once))) {
    if (rate.seconds >= seconds || seconds_between(start_ns, clock.now_ns()) >= 4 * seconds) break;
    clock.sleep_ns(std::llround(1e9 * rest_s));
    const double begin_s = process_seconds();
    const int64_t begin_ns = clock.now_ns();
    cache.want(list);
    for (const int item : list)
      for (size_t e = 0; e < items[static_cast<size_t>(item)].extents.size(); ++e)
        rate.bytes +=
            static_cast<int64_t>(ExtentLease(cache, cache.first_place(item) + static_cast<int>(e)).bytes().size());
    rate.seconds += seconds_between(begin_ns, clock.now_ns());
    rate.cpu_s += process_seconds() - begin_s;
  }
  return rate;
}

double corrected_rate(const ProbedRate& probed, int64_t bytes, double seconds, double waited_s) {
  if (bytes < probed.bytes || seconds <= 0 || waited_s < 0.5 * seconds) return probed.bytes_per_s();
  return static_cast<double>(bytes) / seconds;
}

}  // namespace tern
