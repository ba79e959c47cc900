#include "tensor/arena.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>

#if defined(__linux__)
#include <sys/mman.h>
#endif
#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include "base/error.h"

namespace tern {

namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kHuge = size_t{2} << 20;  // a huge page of x86-64 and of most aarch64 systems

// A sanitizer should see every use of memory that was given back.
#if defined(__SANITIZE_ADDRESS__)
constexpr bool kKeepFreed = false;
#else
constexpr bool kKeepFreed = true;
#endif
#if defined(__linux__)
constexpr bool kOwnPages = kKeepFreed;
#else
constexpr bool kOwnPages = false;
#endif

constexpr size_t kPage = 4096;
constexpr size_t whole_pages(size_t size) { return (size + kPage - 1) / kPage * kPage; }

/// From the system. Large blocks are mappings of their own, so that giving them back really gives them back (the C
/// library keeps freed blocks of up to 32 MiB), and ask for huge pages: one fault instead of 512, and far fewer misses
/// when they are walked.
void* obtain(size_t size) {
  if (size < kHuge || !kOwnPages)
    return std::aligned_alloc(size < kHuge ? kAlignment : kHuge, size < kHuge ? size : whole_pages(size));
#if defined(__linux__)
  const size_t wanted = whole_pages(size), taken = wanted + kHuge;
  void* const mapped = ::mmap(nullptr, taken, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  auto* const begin = static_cast<char*>(mapped);
  const size_t before = (kHuge - reinterpret_cast<uintptr_t>(begin) % kHuge) % kHuge;
  if (before > 0) ::munmap(begin, before);
  ::munmap(begin + before + wanted, taken - before - wanted);
#if defined(MADV_HUGEPAGE)
  ::madvise(begin + before, wanted, MADV_HUGEPAGE);  // advice: where it is refused, small pages serve
#endif
  return begin + before;
#else
  return nullptr;
#endif
}

void give_back(void* data, size_t size) {
#if defined(__linux__)
  if (size >= kHuge && kOwnPages) {
    ::munmap(data, whole_pages(size));
    return;
  }
#endif
  std::free(data);
}

#ifdef NDEBUG
constexpr bool kPoisonByDefault = false;
#else
constexpr bool kPoisonByDefault = true;
#endif

}  // namespace

std::string_view name_of(MemoryClass c) {
  switch (c) {
    case MemoryClass::weights:
      return "weights";
    case MemoryClass::gradients:
      return "gradients";
    case MemoryClass::optimizer:
      return "optimizer";
    case MemoryClass::activations:
      return "activations";
    case MemoryClass::workspace:
      return "workspace";
    case MemoryClass::kv_cache:
      return "kv_cache";
    case MemoryClass::staging:
      return "staging";
  }
  return "?";
}

struct Arena::Counters {
  mutable std::mutex mutex;
  MemoryBytes current{}, peak{}, at_peak{};
  int64_t total = 0, peak_total = 0, limit = 0, num_allocations = 0;
  bool poison = kPoisonByDefault;
  int64_t highest = 0;  // of `total`, ever
  int64_t kept_bytes = 0;
  std::multimap<size_t, void*> kept;  // freed blocks, by size

  // An arena that was of some size leaves nothing resident: neither what it kept nor what the C library keeps of freed
  // small blocks.
  ~Counters() {
    drop_kept(0);
#if defined(__GLIBC__)
    if (highest >= int64_t{8} << 20) ::malloc_trim(0);
#endif
  }

  /// Needs the lock. Gives blocks back to the system until at most `most` bytes are kept.
  void drop_kept(int64_t most) {
    while (!kept.empty() && kept_bytes > most) {
      const auto last = std::prev(kept.end());
      kept_bytes -= static_cast<int64_t>(last->first);
      give_back(last->second, last->first);
      kept.erase(last);
    }
  }
  /// A kept block of exactly this size, or one from the system; null if that has none.
  void* block(size_t size) {
    const std::lock_guard lock(mutex);
    if (const auto found = kept.find(size); found != kept.end()) {
      void* data = found->second;
      kept_bytes -= static_cast<int64_t>(size);
      kept.erase(found);
      return data;
    }
    drop_kept(std::max<int64_t>(0, highest - total));
    return obtain(size);
  }
  /// Keeps the block if what is in use and what is kept stay within what was once in use.
  void give_block(void* data, size_t size) {
    const std::lock_guard lock(mutex);
    const auto bytes = static_cast<int64_t>(size);
    if (!kKeepFreed || size < kHuge || total + kept_bytes + bytes > highest) return give_back(data, size);
    kept.emplace(size, data);
    kept_bytes += bytes;
  }

  void take(MemoryClass c, int64_t bytes) {
    const std::lock_guard lock(mutex);
    // Compared without adding: `bytes` may be near 2^63.
    if (limit > 0 && bytes > limit - total)
      throw Error(
          ErrorKind::does_not_fit,
          "memory: {} more bytes of {} do not fit: {} of {} bytes are in use; raise the limit or make the job smaller",
          bytes, name_of(c), total, limit);
    const auto i = static_cast<size_t>(c);
    ++num_allocations;
    current[i] += bytes;
    total += bytes;
    peak[i] = std::max(peak[i], current[i]);
    highest = std::max(highest, total);
    if (total > peak_total) {
      peak_total = total;
      at_peak = current;
    }
  }
  void give(MemoryClass c, int64_t bytes) {
    const std::lock_guard lock(mutex);
    current[static_cast<size_t>(c)] -= bytes;
    total -= bytes;
  }
};

Arena::Arena() : counters_(std::make_shared<Counters>()) {}

Tensor Arena::allocate(DType dtype, Shape shape, MemoryClass c) {
  int64_t bytes = 0;
  TERN_CHECK(!__builtin_mul_overflow(shape.count(), size_of(dtype), &bytes), "Arena: {} of {} overflows",
             to_string(shape), name_of(dtype));
  counters_->take(c, bytes);
  constexpr int64_t kLargest = int64_t{1} << 62;
  void* data = nullptr;
  size_t padded = 0;
  if (bytes <= kLargest) {
    padded = std::max((static_cast<size_t>(bytes) + kAlignment - 1) / kAlignment * kAlignment, kAlignment);
    data = counters_->block(padded);
  }
  if (!data) {
    counters_->give(c, bytes);
    throw Error(ErrorKind::does_not_fit,
                "memory: the system has no {} bytes for {} {} of {}; close programs or make the job smaller", bytes,
                name_of(dtype), to_string(shape), name_of(c));
  }
  std::shared_ptr<void> storage(data, [counters = counters_, c, bytes, padded](void* p) {
    counters->give(c, bytes);
    counters->give_block(p, padded);
  });
  if (counters_->poison) std::memset(data, 0xff, static_cast<size_t>(bytes));
  return Tensor::borrow(dtype, shape, data, std::move(storage));
}

Tensor Arena::zeros(DType dtype, Shape shape, MemoryClass c) {
  Tensor t = allocate(dtype, shape, c);
  t.fill_zero();
  return t;
}

Tensor Arena::adopt(DType dtype, Shape shape, void* data, std::shared_ptr<void> owner, MemoryClass c) {
  const int64_t bytes = shape.count() * size_of(dtype);
  counters_->take(c, bytes);
  std::shared_ptr<void> storage(
      data, [counters = counters_, c, bytes, owner = std::move(owner)](void*) { counters->give(c, bytes); });
  return Tensor::borrow(dtype, shape, data, std::move(storage));
}

Tensor Arena::bytes(int64_t num_bytes, MemoryClass c) { return allocate(DType::u8, {num_bytes}, c); }

void Arena::set_limit(int64_t total_bytes) {
  const std::lock_guard lock(counters_->mutex);
  counters_->limit = total_bytes;
}

void Arena::set_poison(bool on) {
  const std::lock_guard lock(counters_->mutex);
  counters_->poison = on;
}

MemoryBytes Arena::current() const {
  const std::lock_guard lock(counters_->mutex);
  return counters_->current;
}

int64_t Arena::current_total() const {
  const std::lock_guard lock(counters_->mutex);
  return counters_->total;
}

int64_t Arena::peak_total() const {
  const std::lock_guard lock(counters_->mutex);
  return counters_->peak_total;
}

MemoryBytes Arena::peak() const {
  const std::lock_guard lock(counters_->mutex);
  return counters_->peak;
}

MemoryBytes Arena::at_peak() const {
  const std::lock_guard lock(counters_->mutex);
  return counters_->at_peak;
}

void Arena::reset_peak() {
  const std::lock_guard lock(counters_->mutex);
  counters_->peak = counters_->at_peak = counters_->current;
  counters_->peak_total = counters_->total;
}

int64_t Arena::num_allocations() const {
  const std::lock_guard lock(counters_->mutex);
  return counters_->num_allocations;
}

}  // namespace tern
