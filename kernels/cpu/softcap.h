#pragma once
// The bound c·tanh(z/c), element by element: plain loops over threads, the same for every instruction set. T is float, or double for f64
// models, which are the twin that tests compare float with.
// Source: Gemma Team 2024, arXiv:2408.00118, §2 (number recalled).

#include <span>

namespace tern {

/// y = cap·tanh(y/cap).
template <class T>
void softcap_elements(double cap, std::span<T> y);
/// d = d·(1 - (y/cap)²), with y as softcap_elements left it.
template <class T>
void softcap_gradients(double cap, std::span<const T> y, std::span<T> d);

}  // namespace tern
