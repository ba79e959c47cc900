#pragma once
// Multiplying by a number, and the bound c·tanh(z/c), element by element: plain loops over threads, the same for every
// instruction set. T float, bf16 or double (which judges the others).
// Source of the bound: Gemma Team 2024, arXiv:2408.00118, §2 (number recalled).

#include <span>

namespace tern {

/// y = factor·y.
template <class T>
void scale_elements(double factor, std::span<T> y);
/// y = cap·tanh(y/cap). T float or double.
template <class T>
void softcap_elements(double cap, std::span<T> y);
/// d = d·(1 - (y/cap)²), with y as softcap_elements left it.
template <class T>
void softcap_gradients(double cap, std::span<const T> y, std::span<T> d);

}  // namespace tern
