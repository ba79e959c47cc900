#pragma once
// The twin of kernels/cpu/coded_int8.h, compared by equality: the same steps, a number at a time.

#include <cstdint>
#include <span>

#include "kernels/cpu/code_groups.h"

namespace tern {

/// One number: a row of x (k) times a row of w, whose groups of 256 (the last may be shorter) are `w`. Before the bias.
float dot_int8_ref(std::span<const float> x, std::span<const CodeGroups> w);

}  // namespace tern
