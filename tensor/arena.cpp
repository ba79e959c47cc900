#include "tensor/arena.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <vector>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include "base/error.h"
#include "tensor/block_store.h"

namespace tern {

namespace {

constexpr size_t kAlignment = 64;

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
  std::vector<PeakBytes*> scopes;  // those that live
  BlockStore store;

#if defined(__GLIBC__)
  // An arena that was of some size leaves nothing resident: not what the C library keeps of freed small blocks either.
  ~Counters() {
    if (peak_total >= int64_t{8} << 20) ::malloc_trim(0);
  }
#endif

  /// What may be kept beside what is in use: together no more than was once in use. Needs the lock.
  size_t spare() const { return static_cast<size_t>(std::max<int64_t>(0, peak_total - total)); }
  void* block(size_t size) {
    const std::lock_guard lock(mutex);
    return store.take(size, spare());
  }
  void give_block(void* data, size_t size) {
    const std::lock_guard lock(mutex);
    store.give(data, size, spare());
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
    if (total > peak_total) {
      peak_total = total;
      at_peak = current;
    }
    for (PeakBytes* const scope : scopes) {
      scope->each[i] = std::max(scope->each[i], current[i]);
      scope->total = std::max(scope->total, total);
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

int64_t Arena::num_allocations() const {
  const std::lock_guard lock(counters_->mutex);
  return counters_->num_allocations;
}

PeakScope::PeakScope(const Arena& arena) : counters_(arena.counters_) {
  const std::lock_guard lock(counters_->mutex);
  peak_ = {counters_->current, counters_->total};
  counters_->scopes.push_back(&peak_);
}

PeakScope::~PeakScope() {
  const std::lock_guard lock(counters_->mutex);
  std::erase(counters_->scopes, &peak_);
}

PeakBytes PeakScope::peak() const {
  const std::lock_guard lock(counters_->mutex);
  return peak_;
}

}  // namespace tern
