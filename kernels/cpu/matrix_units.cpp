#include "kernels/cpu/matrix_units.h"

#include <algorithm>
#include <atomic>
#include <iterator>

#include "base/error.h"
#include "base/threads.h"
#include "kernels/cpu/matrix_units_table.h"
#include "kernels/dispatch.h"

namespace tern {
namespace {

// A thread that lost its core for a while holds up the others by one block at most, as in our products: with even
// shares, a busy neighbour would push the limit below what is held against it.
constexpr int64_t kBlocksPerThread = 32;

const UnitLoop& loop_of(DType dtype) {
  TERN_CHECK(dtype == DType::f32 || dtype == DType::bf16, "matrix units: {}", name_of(dtype));
  const MatrixUnitsTable& table = TERN_TABLE_OF(matrix_units_table, active_isa());
  return dtype == DType::bf16 && table.bfloat16.run ? table.bfloat16 : table.f32;
}

}  // namespace

UnitWork work_units(DType dtype, int64_t steps) {
  const UnitLoop& loop = loop_of(dtype);
  alignas(64) float ones[64];
  std::fill(std::begin(ones), std::end(ones), 1.0f);
  const int64_t all_steps = steps * num_compute_threads();
  const int64_t block = std::max<int64_t>(1, steps / kBlocksPerThread);
  std::atomic<int64_t> next{0};
  UnitWork all;
#pragma omp parallel
  {
    for (int64_t at = next.fetch_add(block); at < all_steps; at = next.fetch_add(block)) {
      const int64_t taken = std::min(block, all_steps - at);
      const auto sum = static_cast<double>(loop.run(taken, ones));
#pragma omp critical
      {
        all.sum += sum;
        all.multiply_adds += static_cast<double>(taken * loop.multiply_adds);
      }
    }
  }
  return all;
}

std::string_view units_name(DType dtype) { return loop_of(dtype).name; }

}  // namespace tern
