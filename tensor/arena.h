#pragma once
// Arena: where tensors come from, and who counts their bytes. The counts are logical bytes (elements × size), exactly
// what the closed forms of spec/ predict. Padding is not counted: at most 64 bytes a block, less than a page from 128 KiB on.
// Freed blocks of 128 KiB and more are kept for the next tensors (block_store.h) as long as kept and used bytes together
// do not exceed the most that was ever in use. So a step that repeats itself takes no memory from the system, and
// resident memory stays within the counted peak.

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>

#include "tensor/tensor.h"

namespace tern {

enum class MemoryClass : uint8_t { weights, gradients, optimizer, activations, workspace, kv_cache, staging };
inline constexpr int kNumMemoryClasses = 7;
std::string_view name_of(MemoryClass);

using MemoryBytes = std::array<int64_t, kNumMemoryClasses>;  // indexed by MemoryClass

/// Thread-safe. Tensors may outlive the Arena object (they share its counters).
class Arena {
 public:
  Arena();
  /// 64-byte aligned, contents undefined (every byte 0xff, which is NaN in every float type, in debug builds or after
  /// set_poison(true)). A shape without elements is fine: its tensor is not empty() and counts no bytes.
  /// Errors: does_not_fit if a limit is set and would be passed, or if the system has no memory; names class and bytes.
  Tensor allocate(DType, Shape, MemoryClass);
  Tensor zeros(DType, Shape, MemoryClass);
  /// Wraps memory that `owner` keeps alive, such as a mapped file, and counts it like an allocation: it is as resident.
  Tensor adopt(DType, Shape, void* data, std::shared_ptr<void> owner, MemoryClass);
  /// Scratch that is no tensor (a library's workspace), counted the same way.
  Tensor bytes(int64_t num_bytes, MemoryClass);

  void set_limit(int64_t total_bytes);  // 0: none
  void set_poison(bool on);             // tests: what is read before it is written becomes NaN
  MemoryBytes current() const;
  int64_t current_total() const;
  int64_t peak_total() const;   // highest sum over classes, ever; of a part of the work: PeakScope
  MemoryBytes peak() const;     // highest per class, ever
  MemoryBytes at_peak() const;  // each class at the moment of peak_total
  int64_t num_allocations() const;

 private:
  friend class PeakScope;
  struct Counters;
  std::shared_ptr<Counters> counters_;
};

struct PeakBytes {
  MemoryBytes each{};  // highest per class
  int64_t total = 0;   // highest sum over classes
};
/// The peaks of an arena while this object lives; they start from what is in use when it is made. Any number may live at once,
/// made and ended in any order by any thread: none disturbs another, or the arena's own peaks.
class PeakScope {
 public:
  explicit PeakScope(const Arena&);
  ~PeakScope();
  PeakScope(const PeakScope&) = delete;
  PeakScope& operator=(const PeakScope&) = delete;
  PeakBytes peak() const;

 private:
  std::shared_ptr<Arena::Counters> counters_;
  PeakBytes peak_;
};

}  // namespace tern
