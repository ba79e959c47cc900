#include "quantize/input_moments.h"

#include "base/error.h"
#include "kernels/cpu/matmul.h"

namespace tern {

void InputMoments::see(const Linear& linear, const Tensor& x) {
  if (!wanted_(linear)) return;
  TERN_CHECK(x.dtype() == DType::f32, "moments of {}", name_of(x.dtype()));
  const int64_t k = linear.in;
  const Tensor products = arena_.zeros(DType::f32, {k, k}, MemoryClass::workspace);
  multiply_tn<float>(x.span<float>(), x.span<float>(), x.rows(), k, k, products.span<float>());
  std::vector<double>& sum = moments_[&linear];
  sum.resize(static_cast<size_t>(k * k));
  const std::span<const float> from = products.span<float>();
  for (size_t i = 0; i < sum.size(); ++i) sum[i] += static_cast<double>(from[i]);
}

const std::vector<double>* InputMoments::of(const Linear& linear) const {
  const auto at = moments_.find(&linear);
  return at == moments_.end() ? nullptr : &at->second;
}

}  // namespace tern
