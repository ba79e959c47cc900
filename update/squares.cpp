#include "update/squares.h"

#include "kernels/cpu/vector.h"

namespace tern {

double squares_of(const Tensor& t) {
  if (t.dtype() == DType::f32) return sum_of_squares(std::span<const float>(t.span<float>()));
  double sum = 0;
  for (const double x : t.span<double>()) sum += x * x;
  return sum;
}

}  // namespace tern
