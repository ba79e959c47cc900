#pragma once
// Arena: where tensors come from, and who counts their bytes. The counts are logical bytes (elements × size), exactly
// what the closed forms of spec/ predict. Padding is not counted: at most 64 bytes per block, or less than a page for
// blocks of 128 KiB and more. Freed blocks of 128 KiB and more are kept for the next tensors (block_store.h) while kept
// and used bytes together do not exceed the peak of used bytes. So a step that repeats itself takes no memory from the
// system, and resident memory stays within the counted peak.

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
  /// 64-byte aligned, contents undefined (in debug builds or after set_poison(true) every byte is 0xff, which is NaN in
  /// every float type). A shape without elements is fine: its tensor is not empty() and counts no bytes. Errors:
  /// does_not_fit, naming class and bytes, if a limit is set and would be passed, or if the system has no memory.
  Tensor allocate(DType, Shape, MemoryClass);
  Tensor zeros(DType, Shape, MemoryClass);
  /// Wraps memory that `owner` keeps alive, such as a mapped file. It is counted like an allocation, as it is just as resident.
  Tensor adopt(DType, Shape, void* data, std::shared_ptr<void> owner, MemoryClass);
  /// Scratch that is not a tensor of numbers (a library's workspace), counted like a tensor.
  Tensor bytes(int64_t num_bytes, MemoryClass);

  void set_limit(int64_t total_bytes);  // 0: none
  void set_poison(bool on);             // for tests: values that are read before they are written are NaN
  MemoryBytes current() const;
  int64_t current_total() const;
  int64_t peak_total() const;   // highest sum over classes since the arena was made; for part of the work: PeakScope
  MemoryBytes peak() const;     // highest per class since the arena was made
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
/// The peaks of an arena while this object lives, beginning with what is in use when it is made. Any number may live at
/// once, made and ended in any order by any thread; they change neither each other's peaks nor the arena's.
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
