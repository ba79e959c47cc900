#pragma once
// The multiply-add loops of one instruction set, each for one thread; matrix_units.cpp runs them on all threads.

#include <cstdint>

#include "kernels/cpu/tables.h"

namespace tern {

struct UnitLoop {
  float (*run)(int64_t steps, const float* ones);  // ones: 64 times 1; returns the sum of all results
  int64_t multiply_adds;                           // in one step
  const char* name;
};
struct MatrixUnitsTable {
  UnitLoop f32;
  UnitLoop bfloat16;  // of bf16; a null `run`: the set has no instruction that multiplies bf16
};
TERN_DECLARE_TABLES(MatrixUnitsTable, matrix_units_table)

}  // namespace tern
