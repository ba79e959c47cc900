#include "kernels/cpu/symmetric_matmul.h"

#include <algorithm>

#include "base/error.h"
#include "kernels/cpu/matmul_table.h"
#include "kernels/cpu/parallel.h"
#include "kernels/dispatch.h"

namespace tern {
namespace {

const MatmulTable& products() {
  const Isa isa = active_isa();
  return TERN_TABLE_OF(matmul_table, isa);
}

// What lies above the diagonal of a (side, side) becomes what lies below it, in squares that stay in the first cache.
void mirror(float* a, int64_t side) {
  constexpr int64_t kSide = 32;
  parallel_ranges(side, row_grain(side), kSide, [&](int64_t first, int64_t last) {
    for (int64_t r0 = first; r0 < last; r0 += kSide)
      for (int64_t c0 = r0; c0 < side; c0 += kSide)
        for (int64_t r = r0; r < std::min(last, r0 + kSide); ++r)
          for (int64_t c = std::max(c0, r + 1); c < std::min(side, c0 + kSide); ++c) a[r * side + c] = a[c * side + r];
  });
}

}  // namespace

void gram(std::span<const float> x, int64_t m, int64_t k, std::span<float> a) {
  TERN_CHECK(std::ssize(x) == m * k && std::ssize(a) == k * k, "gram: {} values of ({}, {}), {} of the result",
             x.size(), m, k, a.size());
  std::fill(a.begin(), a.end(), 0.0f);
  products().gram_lower(x.data(), m, k, a.data());
  mirror(a.data(), k);
}

void square_symmetric(std::span<const float> a, int64_t n, std::span<float> y) {
  TERN_CHECK(std::ssize(a) == n * n && std::ssize(y) == n * n, "square_symmetric: {} values, {} of the result, side {}",
             a.size(), y.size(), n);
  products().square_lower(a.data(), n, y.data());
  mirror(y.data(), n);
}

}  // namespace tern
