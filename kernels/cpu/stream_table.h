#pragma once
// The streaming read of one instruction set; stream.cpp splits the range over threads.

#include <cstdint>

#include "kernels/cpu/tables.h"

namespace tern {

struct StreamTable {
  float (*sum)(int64_t count, const float* x);
};
TERN_DECLARE_TABLES(StreamTable, stream_table)

}  // namespace tern
