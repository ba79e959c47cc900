#pragma once
// Memory for timing kernels, from an arena as the engine's own tensors: on huge pages where there are any.

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "tensor/arena.h"
#include "tensor/tensor.h"
#include "train/product_probe.h"

namespace tern {

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

}  // namespace tern
