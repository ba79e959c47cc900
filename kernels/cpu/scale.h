#pragma once
// Multiplying by a number, element by element: plain loops over threads, the same for every instruction set. T float,
// bf16, or double: for f64 models, the twin that tests compare the others with.

#include <span>

namespace tern {

/// y = factor·y.
template <class T>
void scale_elements(double factor, std::span<T> y);

}  // namespace tern
