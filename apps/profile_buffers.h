#pragma once
// Memory on which kernels are timed. It comes from an arena like the engine's tensors, so it lies on huge pages if there are any.

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "tensor/arena.h"
#include "tensor/tensor.h"
#include "train/product_probe.h"

namespace tern {

/// Buffers that live as long as this object.
class ProfileBuffers {
 public:
  /// `count` numbers between −0.5 and 0.5, the same each time.
  template <class T>
  std::span<T> numbers(int64_t count) {
    const std::span<T> out = room<T>(count);
    fill_probe(out);
    return out;
  }
  /// `count` zeros.
  template <class T>
  std::span<T> room(int64_t count) {
    held_.push_back(arena_.bytes(count * static_cast<int64_t>(sizeof(T)), MemoryClass::workspace));
    const std::span<T> out(static_cast<T*>(held_.back().data()), static_cast<size_t>(count));
    std::fill(out.begin(), out.end(), T{});
    return out;
  }

 private:
  Arena arena_;
  std::vector<Tensor> held_;
};

/// Numbers that no cache holds: they come in turn from a buffer of `bytes` bytes, as f32 or as bf16 from the same memory. No bf16
/// number is zero: otherwise two of them, read as one f32, could be a denormal number, which some processors multiply far more slowly.
struct ColdNumbers {
  ProfileBuffers buffers;
  std::span<bf16> numbers;
  size_t at = 0;
  explicit ColdNumbers(int64_t bytes) : numbers(buffers.numbers<bf16>(bytes / 2)) {
    for (bf16& x : numbers) x = to_bf16(to_float(x) + 1.0f / 512);  // odd multiples of 1/512
  }
  /// The `count` numbers after those of the call before, or, if fewer are left, the first ones again.
  template <class T>
  std::span<T> next(int64_t count) {
    const size_t halves = static_cast<size_t>(count) * sizeof(T) / 2;
    if (at + halves > numbers.size()) at = 0;
    const std::span<bf16> part = numbers.subspan(at, halves);
    at += (halves + 31) / 32 * 32;
    return {reinterpret_cast<T*>(part.data()), static_cast<size_t>(count)};
  }
};

}  // namespace tern
