// The machine's limits, each measured the way the work that meets it would.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "apps/bench.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/io.h"
#include "base/process_memory.h"
#include "base/rounding.h"
#include "base/system.h"
#include "base/text.h"
#include "base/threads.h"
#include "base/units.h"
#include "kernels/cpu/matrix_units.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/stream.h"
#include "kernels/onednn/onednn_matmul.h"
#include "tensor/arena.h"
#include "train/product_probe.h"

namespace tern {
namespace {

// --- matrix units, and products of 1024³ under them: by our kernels, and by oneDNN with weights as training has them
// ---

/// The rate of the units, in calls long enough that waking the threads, or a time slice that one of them loses, is
/// little.
double unit_rate(DType dtype) {
  constexpr double kCallSeconds = 0.025;
  Clock& clock = real_clock();
  int64_t steps = 10000, begin = 0;
  do {
    steps *= 2;
    begin = clock.now_ns();
    static_cast<void>(work_units(dtype, steps));
  } while (seconds_between(begin, clock.now_ns()) < kCallSeconds);
  double flops = 0;
  const double calls = rate_of(1, kTaskSeconds, [&] { flops = 2 * work_units(dtype, steps).multiply_adds; });
  return calls * flops;
}

std::string unit_name(DType dtype) { return fmt::format("matrix units {}", name_of(dtype)); }

template <class T>
void add_product(std::vector<BenchTask>& tasks, typename ProductProbe<T>::Who who, const std::string& name) {
  const auto product = std::make_shared<ProductProbe<T>>(who);
  tasks.push_back({.name = fmt::format("product {}, {}", name_of(DTypeOf<T>::value), name),
                   .unit = "FLOP/s",
                   .against = unit_name(DTypeOf<T>::value),
                   .what = "1024 × 1024 × 1024, in the caches",
                   .once = [=] { return rate_of(kProbeFlops, kTaskSeconds, [&] { product->run(); }); }});
}

template <class T>
void add_units(std::vector<BenchTask>& tasks) {
  constexpr DType kType = DTypeOf<T>::value;
  tasks.push_back({.name = unit_name(kType),
                   .unit = "FLOP/s",
                   .against = {},
                   .what = fmt::format("{}, registers only, {} threads", units_name(kType), num_compute_threads()),
                   .once = [] { return unit_rate(kType); }});
  using Who = typename ProductProbe<T>::Who;
  add_product<T>(tasks, Who::exact, "own kernels");
  if (onednn_can(kType)) add_product<T>(tasks, Who::onednn, fmt::format("oneDNN {}", onednn_version()));
}

// --- reads ---

/// From an arena: on huge pages where there are any.
struct ReadBuffer {
  Arena arena;
  Tensor memory;
  explicit ReadBuffer(int64_t bytes) : memory(arena.allocate(DType::f32, {bytes / 4}, MemoryClass::workspace)) {
    const std::span<float> all = memory.span<float>();
    parallel_ranges(static_cast<int64_t>(all.size()), 1 << 20, 1 << 12,
                    [&](int64_t begin, int64_t end) { std::fill(all.begin() + begin, all.begin() + end, 1.0f); });
  }
  std::span<const float> all() const { return memory.span<float>(); }
};

void add_cache_reads(std::vector<BenchTask>& tasks, const std::shared_ptr<ReadBuffer>& buffer) {
  for (const Cache& cache : read_caches()) {
    // Half of it, so that what else lives there leaves it; a shared last level is a neighbour's too: 16 MiB at most.
    const int64_t bytes = std::min<int64_t>(cache.bytes / 2, int64_t{16} << 20);
    if (bytes > buffer->memory.bytes()) continue;
    const std::span<const float> part = buffer->all().first(static_cast<size_t>(bytes) / sizeof(float));
    const int times = static_cast<int>(std::max<int64_t>(1, (int64_t{64} << 20) / bytes));
    tasks.push_back({.name = fmt::format("L{} read", cache.level),
                     .unit = "B/s",
                     .what = fmt::format("{} again and again, one thread", format_bytes(bytes)),
                     .once = [buffer, part, times, bytes] {
                       return rate_of(static_cast<double>(bytes) * times, kTaskSeconds,
                                      [&] { static_cast<void>(stream_sum_again(part, times)); });
                     }});
  }
}

void add_memory_reads(std::vector<BenchTask>& tasks, const std::shared_ptr<ReadBuffer>& buffer) {
  const auto bytes = static_cast<double>(buffer->memory.bytes());
  tasks.push_back({.name = "memory read, one thread",
                   .unit = "B/s",
                   .what = fmt::format("{} from front to back", format_bytes(static_cast<int64_t>(bytes))),
                   .once = [=] {
                     return rate_of(bytes, kTaskSeconds,
                                    [&] { static_cast<void>(stream_sum_again(buffer->all(), 1)); });
                   }});
  tasks.push_back(
      {.name = "memory read",
       .unit = "B/s",
       .what = fmt::format("{} in {} parts, {} threads", format_bytes(static_cast<int64_t>(bytes)),
                           num_compute_threads(), num_compute_threads()),
       .once = [=] { return rate_of(bytes, kTaskSeconds, [&] { static_cast<void>(stream_sum(buffer->all())); }); }});
}

// --- the disk: a file of our own, read past the page cache ---

constexpr int64_t kDiskBytes = int64_t{256} << 20, kBlock = int64_t{1} << 20, kWritten = int64_t{32} << 20;

/// Removes the file when it goes, also when what was to follow its making throws.
struct Removed {
  std::string path;
  ~Removed() { ::unlink(path.c_str()); }
};
struct Descriptor {
  int number = -1;
  ~Descriptor() {
    if (number >= 0) ::close(number);
  }
};

class DiskFile {
 public:
  explicit DiskFile(const std::string& directory)
      : file_{join_path(directory, fmt::format(".tern-bench-{}", getpid()))}, path_(file_.path) {
    const auto file = real_io().create(path_);
    std::vector<std::byte> block(kBlock);
    for (size_t i = 0; i < block.size(); ++i) block[i] = static_cast<std::byte>(i * 2654435761u >> 13);
    for (int64_t at = 0; at < kDiskBytes; at += kBlock) file->append(block);
    file->sync();
    file->close();
    reader_.number = ::open(path_.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC);
    direct_ = reader_.number >= 0;
    if (!direct_) reader_.number = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
    if (reader_.number < 0) throw_io_error("open", path_, errno);
    writer_.number = ::open(path_.c_str(), O_WRONLY | (direct_ ? O_DIRECT : 0) | O_CLOEXEC);
    if (writer_.number < 0) throw_io_error("open", path_, errno);
    void* memory = nullptr;
    TERN_CHECK(::posix_memalign(&memory, 4096, kBlock) == 0, "bench: no aligned block");
    block_.reset(memory);
  }
  DiskFile(const DiskFile&) = delete;
  DiskFile& operator=(const DiskFile&) = delete;

  bool direct() const { return direct_; }
  // kWritten bytes from the start on, and until the disk has them.
  void write() {
    for (int64_t at = 0; at < kWritten; at += kBlock)
      if (::pwrite(writer_.number, block_.get(), kBlock, at) != kBlock) throw_io_error("write", path_, errno);
    if (::fdatasync(writer_.number) != 0) throw_io_error("sync", path_, errno);
  }
  // The next block, from the start again after the last.
  void read() {
    if (!direct_) ::posix_fadvise(reader_.number, at_, kBlock, POSIX_FADV_DONTNEED);
    if (::pread(reader_.number, block_.get(), kBlock, at_) != kBlock) throw_io_error("read", path_, errno);
    at_ = (at_ + kBlock) % kDiskBytes;
  }

 private:
  Removed file_;
  const std::string& path_;
  Descriptor reader_, writer_;
  bool direct_ = false;
  int64_t at_ = 0;
  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  std::unique_ptr<void, Free> block_;
};

void add_disk(std::vector<BenchTask>& tasks, const std::string& directory, std::vector<std::string>& notes) {
  const std::string system = read_disk_facts(directory).file_system;
  const bool memory = system == "tmpfs";
  if (memory)
    notes.push_back(
        fmt::format("{} is a tmpfs: what is read and written there is memory and no disk; give --disk a "
                    "folder on a disk",
                    directory));
  const auto file = std::make_shared<DiskFile>(directory);
  tasks.push_back(
      {.name = "disk read",
       .unit = "B/s",
       .what = fmt::format("{} in blocks of 1 MiB, one thread, {}", directory,
                           memory           ? "a tmpfs: memory, no disk"
                           : file->direct() ? "O_DIRECT"
                                            : "cache dropped (the file system has no O_DIRECT)"),
       .once = [file] { return rate_of(static_cast<double>(kBlock), kTaskSeconds, [&] { file->read(); }); }});
  tasks.push_back(
      {.name = "disk write",
       .unit = "B/s",
       .what = fmt::format("{} of {} in blocks of 1 MiB, then synced{}", format_bytes(kWritten), directory,
                           memory ? "; a tmpfs: memory, no disk" : ""),
       .once = [file] { return rate_of(static_cast<double>(kWritten), kTaskSeconds, [&] { file->write(); }); }});
}

}  // namespace

std::vector<Cache> read_caches() {
  std::vector<Cache> caches;
  for (int i = 0; i < 8; ++i) {
    const std::string root = fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/", i);
    std::ifstream level_file(root + "level"), type_file(root + "type"), size_file(root + "size");
    int level = 0;
    std::string type, size;
    if (!(level_file >> level) || !(type_file >> type) || !(size_file >> size) || type == "Instruction") continue;
    char* unit = nullptr;
    const int64_t number = std::strtoll(size.c_str(), &unit, 10);
    const int64_t scale = *unit == 'K' ? 1 << 10 : *unit == 'M' ? 1 << 20 : 1;
    if (number > 0) caches.push_back({level, number * scale});
  }
  return caches;
}

int64_t beyond_caches() {
  int64_t largest = 0;
  for (const Cache& cache : read_caches()) largest = std::max(largest, cache.bytes);
  return 4 * largest;
}

std::vector<BenchTask> limit_tasks(const BenchSettings& settings, std::vector<std::string>& notes) {
  std::vector<BenchTask> tasks;
  add_units<float>(tasks);
  add_units<bf16>(tasks);
  const int64_t beyond = beyond_caches();
  const int64_t bytes = std::min(std::max(int64_t{1} << 30, beyond), settings.memory_bytes / 4);
  if (bytes < int64_t{64} << 20)
    throw Error(ErrorKind::does_not_fit,
                "bench: a buffer of {} would be left for the memory read, at least 64 MiB are needed; free memory or "
                "raise --memory to 512 MiB",
                format_bytes(bytes));
  if (bytes < beyond) {
    constexpr int64_t kMiB = int64_t{1} << 20;  // 8: the program's own share differs from one start to another
    notes.push_back(
        fmt::format("the memory read passes {}, the largest cache has {}: a part may come from it; {} would do",
                    format_bytes(bytes), format_bytes(beyond / 4),
                    settings.more_memory.empty()
                        ? fmt::format("--memory {}MiB or more", ceil_div(4 * beyond + program_bytes(), kMiB) + 8)
                        : settings.more_memory));
  }
  const auto buffer = std::make_shared<ReadBuffer>(bytes);
  add_cache_reads(tasks, buffer);
  add_memory_reads(tasks, buffer);
  if (!settings.disk.empty()) add_disk(tasks, settings.disk, notes);
  return tasks;
}

}  // namespace tern
