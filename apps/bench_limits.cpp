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
#include "base/text.h"
#include "base/threads.h"
#include "base/units.h"
#include "kernels/cpu/matmul.h"
#include "kernels/cpu/stream.h"
#include "kernels/onednn/fast_matmul.h"

namespace tern {
namespace {

// --- matrix products: 1024³, weights packed where the multiplier packs them ---

constexpr int64_t kSize = 1024;

template <class T>
struct Product1024 {
  std::vector<T> x, w, y;
  std::vector<std::byte> scratch, packed;

  Product1024() : x(kSize * kSize), w(kSize * kSize), y(kSize * kSize) {
    for (size_t i = 0; i < x.size(); ++i) {
      const float value = static_cast<float>((i * 2654435761u) >> 8 & 0xff) / 256.0f - 0.5f;
      if constexpr (std::is_same_v<T, float>)
        x[i] = w[i] = value;
      else
        x[i] = w[i] = to_bf16(value);
    }
    packed.resize(static_cast<size_t>(packed_bytes(DTypeOf<T>::value, kSize, kSize)));
    pack_weight<T>(w, kSize, kSize, packed);
    scratch.resize(static_cast<size_t>(fast_scratch_bytes(Product::forward, DTypeOf<T>::value, kSize, kSize, kSize)));
  }
  void fast() { multiply_fast<T, T>(x, w, {}, kSize, kSize, kSize, std::span(y), scratch); }
  void exact() { multiply_exact<T, T>(x, packed, {}, kSize, kSize, kSize, false, std::span(y)); }
};

template <class T>
void add_products(std::vector<BenchTask>& tasks) {
  const auto product = std::make_shared<Product1024<T>>();
  const double flops = 2.0 * kSize * kSize * kSize;
  const std::string dtype(name_of(DTypeOf<T>::value));
  const auto add = [&](const std::string& who, auto call) {
    tasks.push_back({.name = fmt::format("matrix product {}", dtype),
                     .unit = "FLOP/s",
                     .against = {},
                     .what = fmt::format("1024 × 1024 × 1024, {}", who),
                     .once = [=] { return rate_of(flops, kTaskSeconds, [&] { call(*product); }); }});
  };
  add(std::string(fast_matmul_name()), [](Product1024<T>& p) { p.fast(); });
  add("own exact kernels", [](Product1024<T>& p) { p.exact(); });
}

// --- reads ---

struct Cache {
  int level;
  int64_t bytes;
};
// Data caches of the first CPU, from the kernel's own description; where there is none, none.
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

void add_cache_reads(std::vector<BenchTask>& tasks, const std::shared_ptr<std::vector<float>>& buffer) {
  for (const Cache& cache : read_caches()) {
    // Half of it, so that what else lives there leaves it; a shared last level is a neighbour's too: 16 MiB at most.
    const int64_t bytes = std::min<int64_t>(cache.bytes / 2, int64_t{16} << 20);
    if (bytes > static_cast<int64_t>(buffer->size() * sizeof(float))) continue;
    const std::span<const float> part(buffer->data(), static_cast<size_t>(bytes) / sizeof(float));
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

void add_memory_reads(std::vector<BenchTask>& tasks, const std::shared_ptr<std::vector<float>>& buffer) {
  const auto bytes = static_cast<double>(buffer->size() * sizeof(float));
  tasks.push_back(
      {.name = "memory read, one thread",
       .unit = "B/s",
       .what = fmt::format("{} from front to back", format_bytes(static_cast<int64_t>(bytes))),
       .once = [=] { return rate_of(bytes, kTaskSeconds, [&] { static_cast<void>(stream_sum_again(*buffer, 1)); }); }});
  tasks.push_back(
      {.name = "memory read",
       .unit = "B/s",
       .what = fmt::format("{} in {} parts, {} threads", format_bytes(static_cast<int64_t>(bytes)),
                           num_compute_threads(), num_compute_threads()),
       .once = [=] { return rate_of(bytes, kTaskSeconds, [&] { static_cast<void>(stream_sum(*buffer)); }); }});
}

// --- the disk: a file of our own, read past the page cache ---

constexpr int64_t kDiskBytes = int64_t{256} << 20, kBlock = int64_t{1} << 20, kWritten = int64_t{32} << 20;

class DiskFile {
 public:
  explicit DiskFile(const std::string& directory)
      : path_(join_path(directory, fmt::format(".tern-bench-{}", getpid()))) {
    const auto file = real_io().create(path_);
    std::vector<std::byte> block(kBlock);
    for (size_t i = 0; i < block.size(); ++i) block[i] = static_cast<std::byte>(i * 2654435761u >> 13);
    for (int64_t at = 0; at < kDiskBytes; at += kBlock) file->append(block);
    file->sync();
    file->close();
    descriptor_ = ::open(path_.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC);
    direct_ = descriptor_ >= 0;
    if (!direct_) descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor_ < 0) throw_io_error("open", path_, errno);
    writer_ = ::open(path_.c_str(), O_WRONLY | (direct_ ? O_DIRECT : 0) | O_CLOEXEC);
    if (writer_ < 0) throw_io_error("open", path_, errno);
    void* memory = nullptr;
    TERN_CHECK(::posix_memalign(&memory, 4096, kBlock) == 0, "bench: no aligned block");
    block_.reset(memory);
  }
  ~DiskFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
    if (writer_ >= 0) ::close(writer_);
    ::unlink(path_.c_str());
  }
  DiskFile(const DiskFile&) = delete;
  DiskFile& operator=(const DiskFile&) = delete;

  bool direct() const { return direct_; }
  // kWritten bytes from the start on, and until the disk has them.
  void write() {
    for (int64_t at = 0; at < kWritten; at += kBlock)
      if (::pwrite(writer_, block_.get(), kBlock, at) != kBlock) throw_io_error("write", path_, errno);
    if (::fdatasync(writer_) != 0) throw_io_error("sync", path_, errno);
  }
  // The next block, from the start again after the last.
  void read() {
    if (!direct_) ::posix_fadvise(descriptor_, at_, kBlock, POSIX_FADV_DONTNEED);
    if (::pread(descriptor_, block_.get(), kBlock, at_) != kBlock) throw_io_error("read", path_, errno);
    at_ = (at_ + kBlock) % kDiskBytes;
  }

 private:
  std::string path_;
  int descriptor_ = -1, writer_ = -1;
  bool direct_ = false;
  int64_t at_ = 0;
  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  std::unique_ptr<void, Free> block_;
};

void add_disk(std::vector<BenchTask>& tasks, const std::string& directory) {
  const auto file = std::make_shared<DiskFile>(directory);
  tasks.push_back(
      {.name = "disk read",
       .unit = "B/s",
       .what = fmt::format("{} in blocks of 1 MiB, one thread, {}", directory,
                           file->direct() ? "O_DIRECT" : "cache dropped (the file system has no O_DIRECT)"),
       .once = [file] { return rate_of(static_cast<double>(kBlock), kTaskSeconds, [&] { file->read(); }); }});
  tasks.push_back(
      {.name = "disk write",
       .unit = "B/s",
       .what = fmt::format("{} of {} in blocks of 1 MiB, then synced", format_bytes(kWritten), directory),
       .once = [file] { return rate_of(static_cast<double>(kWritten), kTaskSeconds, [&] { file->write(); }); }});
}

}  // namespace

std::vector<BenchTask> limit_tasks(const BenchSettings& settings) {
  std::vector<BenchTask> tasks;
  add_products<float>(tasks);
  add_products<bf16>(tasks);
  // Larger than any last-level cache that one machine of ours would have for itself, within what may be used.
  const int64_t bytes = std::min<int64_t>(int64_t{1} << 30, settings.memory_bytes / 4);
  if (bytes < int64_t{64} << 20)
    throw Error(ErrorKind::does_not_fit,
                "bench: a buffer of {} would be left for the memory read, at least 64 MiB are needed; free memory or "
                "raise --memory to 512 MiB",
                format_bytes(bytes));
  const auto buffer = std::make_shared<std::vector<float>>(static_cast<size_t>(bytes) / sizeof(float), 1.0f);
  add_cache_reads(tasks, buffer);
  add_memory_reads(tasks, buffer);
  if (!settings.disk.empty()) add_disk(tasks, settings.disk);
  return tasks;
}

}  // namespace tern
