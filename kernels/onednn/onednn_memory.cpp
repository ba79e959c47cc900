#include <algorithm>
#include <array>

#include "base/rounding.h"
#include "kernels/onednn/onednn_matmul.h"

namespace tern {

// Source: read in oneDNN 2.6.3 (src/cpu/x64/gemm: block sizes, buffers of a thread; src/cpu/gemm/f32: how threads part
// a product), where no query tells of it. That library reads a product as columns: its m are our result's columns. Each
// thread packs a block of both factors; how the threads part the product is left open here, so that each may have all
// columns.
int64_t onednn_general_bytes(const OnednnProduct& p, bool avx512, int threads) {
  const auto [rows, columns, sum] = p.product == LinearProduct::forward          ? std::array{p.m, p.n, p.k}
                                    : p.product == LinearProduct::input_gradient ? std::array{p.m, p.k, p.n}
                                                                                 : std::array{p.n, p.k, p.m};
  if (rows == 0 || columns == 0 || sum == 0) return 0;
  const int64_t unit = avx512 ? 48 : 24, most_columns = avx512 ? 9984 : 10000;
  const int64_t wide = round_up(std::clamp(columns, unit, most_columns), unit);
  const int64_t high = round_up(std::clamp<int64_t>(rows, 8, 384), 8);
  const int64_t deep_bytes = std::min<int64_t>(avx512 ? 1536 : 1024, std::max<int64_t>(sum, 128) * size_of(p.dtype));
  constexpr int64_t kFloat = 4, kPages = 4 * 4096;
  const int64_t copies = (wide + high) * deep_bytes + (std::min(columns, 10 * most_columns) + high + unit) * kFloat;
  // Products that it does not copy for: the kernel's own strip, and on avx2 a tile of at most 80 × 48 where threads
  // part the sum; a vector by a matrix keeps a result for each thread. Fewer rows may come too, so what only they take
  // stays counted.
  constexpr int64_t kStrip = (256 * 16 + 64 + 80 * 48) * kFloat;
  const bool fewer = p.product != LinearProduct::weight_gradient;
  const int64_t vector = (columns == 1 || rows == 1 || fewer ? std::max(columns == 1 ? rows : 1, columns) : 0) * kFloat;
  int64_t bytes = threads * (copies + kPages + kStrip + vector);
  // Where the result is small and the sum long, avx512 gives up to a quarter of the threads a result of their own.
  const int64_t most_rows = fewer ? std::min({rows, int64_t{128}, sum - 1}) : rows;
  if (avx512 && most_rows <= 128 && columns <= 64 * threads && sum > std::max(most_rows, columns))
    bytes += threads / 4 * round_up(columns, 16) * most_rows * kFloat;
  return bytes;
}

}  // namespace tern
