#include "kernels/cpu/matrix_units.h"

#include "kernels/kernel_testing.h"

namespace tern {
namespace {

// A loop that the compiler emptied, or that counts what it does not do, would be a limit of nothing.
TEST(MatrixUnits, EveryCountedMultiplyAddIsDone) {
  for_each_isa([] {
    for (const DType dtype : {DType::f32, DType::bf16})
      for (const int threads : {1, 2, 3})
        with_threads(threads, [&] {
          const UnitWork none = work_units(dtype, 0), one = work_units(dtype, 1), many = work_units(dtype, 100);
          EXPECT_EQ(none.multiply_adds, 0) << name_of(dtype);
          EXPECT_GE(one.multiply_adds, threads * 4 * 12) << name_of(dtype);
          EXPECT_EQ(many.multiply_adds, 100 * one.multiply_adds);
          for (const UnitWork& w : {none, one, many}) EXPECT_EQ(w.sum, w.multiply_adds) << name_of(dtype) << threads;
          EXPECT_FALSE(units_name(dtype).empty());
        });
  });
}

}  // namespace
}  // namespace tern
