#include "kernels/cpu/matrix_units.h"

#include <omp.h>

#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "kernels/cpu/matrix_units_table.h"
#include "kernels/dispatch.h"

namespace tern {
namespace {

const UnitLoop& loop_of(DType dtype) {
  TERN_CHECK(dtype == DType::f32 || dtype == DType::bf16, "matrix units: {}", name_of(dtype));
  const MatrixUnitsTable& table = TERN_TABLE_OF(matrix_units_table, active_isa());
  return dtype == DType::bf16 && table.half.run ? table.half : table.f32;
}

}  // namespace

UnitWork work_units(DType dtype, int64_t steps) {
  const UnitLoop& loop = loop_of(dtype);
  alignas(64) float ones[64];
  std::fill(std::begin(ones), std::end(ones), 1.0f);
  UnitWork all;
#pragma omp parallel
  {
    const auto sum = static_cast<double>(loop.run(steps, ones));
#pragma omp critical
    {
      all.sum += sum;
      all.multiply_adds += static_cast<double>(steps * loop.multiply_adds);
    }
  }
  return all;
}

std::string_view units_name(DType dtype) { return loop_of(dtype).name; }

}  // namespace tern
