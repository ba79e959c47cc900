#pragma once
// Stretches of x's rows of bf16 that a product widens to f32 beforehand, and their scratch.

#include <algorithm>
#include <cstdint>

#include "base/rounding.h"
#include "kernels/cpu/matmul.h"
#include "kernels/cpu/matmul_table.h"
#include "kernels/cpu/thread_scratch.h"

namespace tern {

/// f(row, rows, room): stretches of nearly equal length that cover m rows of k numbers, one after the other. room: for the stretch, widened, or
/// null where rows are not widened beforehand; then there is one stretch. Errors: std::bad_alloc.
template <class F>
void for_widened_rows(int64_t m, int64_t k, F&& f) {
  const int64_t bytes = widened_bytes(m, k), parts = bytes > 0 ? ceil_div(m, wide_rows(k)) : 1;
  const int64_t rows = ceil_div(m, parts);
  auto* const room = bytes > 0 ? static_cast<float*>(thread_scratch(bytes)) : nullptr;
  for (int64_t row = 0; row < m; row += rows) f(row, std::min(rows, m - row), room);
}

}  // namespace tern
