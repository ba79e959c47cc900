#include "kernels/cpu/elementwise_impl.h"
#include "kernels/cpu/experts_table.h"

namespace tern::TERN_ISA_NAMESPACE {
namespace {

template <class X>
void combine(int64_t width, int64_t top_k, const X* x, const int32_t* rows, const float* weights, bool add, X* y) {
  for_each_lanes(width, [&](int64_t i, int64_t n) {
    Vec sum = splat(0);
    for (int64_t k = 0; k < top_k; ++k)
      sum += splat(weights ? weights[k] : 1.0f) * load_some(x + rows[k] * width + i, n);
    store_some(y + i, add ? load_some(y + i, n) + sum : sum, n);
  });
}

// Sixteen sums whatever the set: element j to sum j % 16. Lanes behind the end add zeros.
template <class X>
float dot(int64_t width, const X* a, const X* b) {
  constexpr int kSums = 16, kVectors = kSums / kLanes;
  Vec sums[kVectors];
  for (Vec& s : sums) s = splat(0);
  int64_t i = 0;
  for (; i + kSums <= width; i += kSums)
    for (int v = 0; v < kVectors; ++v) sums[v] += load(a + i + v * kLanes) * load(b + i + v * kLanes);
  for (int v = 0; v < kVectors; ++v) {
    const int64_t at = i + v * kLanes, left = width - at, n = left < 0 ? 0 : left < kLanes ? left : kLanes;
    if (n > 0) sums[v] += load_some(a + at, n) * load_some(b + at, n);
  }
  float sum = 0;
  for (const Vec& s : sums)
    for (int lane = 0; lane < kLanes; ++lane) sum += s[lane];
  return sum;
}

template <class X>
void scale(int64_t width, float factor, X* x) {
  for_each_lanes(width, [&](int64_t i, int64_t n) { store_some(x + i, splat(factor) * load_some(x + i, n), n); });
}

template <class X>
constexpr ExpertKernels<X> kKernels = {combine<X>, dot<X>, scale<X>};

}  // namespace

const ExpertTable expert_table = {.f32 = kKernels<float>, .bfloat16 = kKernels<bf16>};

}  // namespace tern::TERN_ISA_NAMESPACE
