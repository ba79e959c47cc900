#pragma once
// The elementary functions of kernels/cpu/vector_math_impl.h as calls, so that tests can compare them with doubles.

#include <cstdint>

#include "kernels/cpu/tables.h"

namespace tern {

struct VectorMathTable {
  void (*exp)(const float* x, int64_t count, float* y);
  void (*sigmoid)(const float* x, int64_t count, float* y);
};
TERN_DECLARE_TABLES(VectorMathTable, vector_math_table)

}  // namespace tern
