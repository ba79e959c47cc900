#pragma once
// The loops of one instruction set on one thread; matrix_units.cpp runs them on all.

#include <cstdint>

#include "kernels/cpu/tables.h"

namespace tern {

struct UnitLoop {
  float (*run)(int64_t steps, const float* ones);  // ones (64); the sum of all results
  int64_t multiply_adds;                           // of a step
  const char* name;
};
struct MatrixUnitsTable {
  UnitLoop f32;
  UnitLoop bfloat16;  // bf16; without `run`: the set has no instruction for it
};
TERN_DECLARE_TABLES(MatrixUnitsTable, matrix_units_table)

}  // namespace tern
