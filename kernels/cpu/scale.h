#pragma once
// Multiplying by a number, element by element: plain loops over threads, the same for every instruction set. T is
// float, bf16 or double. Double is for f64 models, which are the twin that tests compare the other types with.

#include <span>

namespace tern {

/// y = factor·y.
template <class T>
void scale_elements(double factor, std::span<T> y);

}  // namespace tern
