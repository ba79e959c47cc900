#include "kernels/cpu/vector_math_impl.h"
#include "kernels/cpu/vector_math_table.h"

namespace tern::TERN_ISA_NAMESPACE {
namespace {

template <Vec (*Function)(Vec)>
void apply(const float* x, int64_t count, float* y) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) store(y + i, Function(load(x + i)));
  store(y + i, Function(load(x + i, count - i)), count - i);
}

}  // namespace

const VectorMathTable vector_math_table = {.exp = apply<exp>, .sigmoid = apply<sigmoid>};

}  // namespace tern::TERN_ISA_NAMESPACE
