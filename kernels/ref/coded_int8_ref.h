#pragma once
// The twin (reference implementation) of kernels/cpu/coded_int8.h: the same steps, one number at a time, so that both have equal bits.

#include <cstdint>
#include <span>

#include "kernels/cpu/code_groups.h"

namespace tern {

/// One element of y before the bias: a row of x (k) times a row of w, given as its groups of 256 numbers (the last may be shorter).
float dot_int8_ref(std::span<const float> x, std::span<const CodeGroups> w);

}  // namespace tern
