#include "kernels/cpu/experts.h"

#include <cmath>
#include <type_traits>
#include <vector>

#include "base/dtype.h"
#include "base/error.h"
#include "kernels/cpu/experts_table.h"
#include "kernels/cpu/parallel.h"
#include "kernels/dispatch.h"

namespace tern {

namespace {

template <class X>
const ExpertKernels<X>& active() {
  const ExpertTable& table = TERN_TABLE_OF(expert_table, active_isa());
  if constexpr (std::is_same_v<X, float>)
    return table.f32;
  else
    return table.bfloat16;
}

template <class X>
X stored(float x) {
  if constexpr (std::is_same_v<X, bf16>)
    return to_bf16(x);
  else
    return x;
}

constexpr int64_t kOpsPerSigmoid = 16;  // about

}  // namespace

void sort_by_expert(std::span<const int32_t> chosen, int64_t top_k, std::span<int32_t> begin, std::span<int32_t> tokens,
                    std::span<int32_t> rows) {
  TERN_CHECK(tokens.size() == chosen.size() && rows.size() == chosen.size() && chosen.size() <= INT32_MAX,
             "sort_by_expert: {} chosen, {} rows", chosen.size(), rows.size());
  std::vector<int32_t> next(begin.size(), 0);
  for (const int32_t e : chosen) {
    TERN_CHECK(0 <= e && static_cast<size_t>(e) + 1 < begin.size(), "sort_by_expert: expert {} of {}", e,
               static_cast<int64_t>(begin.size()) - 1);
    ++next[static_cast<size_t>(e) + 1];
  }
  for (size_t e = 0; e < begin.size(); ++e) begin[e] = next[e] += e ? next[e - 1] : 0;
  for (size_t i = 0; i < chosen.size(); ++i) {
    const int32_t row = next[static_cast<size_t>(chosen[i])]++;
    rows[i] = row;
    tokens[static_cast<size_t>(row)] = static_cast<int32_t>(static_cast<int64_t>(i) / top_k);
  }
}

template <class X>
void combine_rows(std::span<const X> x, int64_t width, std::span<const int32_t> rows, std::span<const float> weights,
                  bool add, std::span<X> y) {
  const int64_t num = width ? static_cast<int64_t>(y.size()) / width : 0;
  const int64_t K = num ? static_cast<int64_t>(rows.size()) / num : 0;
  const auto kernel = active<X>().combine;
  parallel_ranges(num, row_grain(width * (K + 1)), 1, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t)
      kernel(width, K, x.data(), rows.data() + t * K, weights.empty() ? nullptr : weights.data() + t * K, add,
             y.data() + t * width);
  });
}

template <class X>
void row_dots(std::span<const X> a, std::span<const X> b, int64_t width, std::span<const int32_t> rows,
              std::span<float> dots) {
  const auto kernel = active<X>().dot;
  parallel_ranges(static_cast<int64_t>(dots.size()), row_grain(width), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = rows.empty() ? i : rows[static_cast<size_t>(i)];
      dots[static_cast<size_t>(i)] = kernel(width, a.data() + row * width, b.data() + row * width);
    }
  });
}

template <class X>
void scale_rows(std::span<const float> factors, int64_t width, std::span<const int32_t> rows, std::span<X> x) {
  const auto kernel = active<X>().scale;
  parallel_ranges(static_cast<int64_t>(factors.size()), row_grain(width), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      kernel(width, factors[static_cast<size_t>(i)],
             x.data() + (rows.empty() ? i : rows[static_cast<size_t>(i)]) * width);
  });
}

void sigmoid_elements(std::span<float> x) {
  parallel_ranges(static_cast<int64_t>(x.size()), row_grain(kOpsPerSigmoid), 1, [&](int64_t begin, int64_t end) {
    for (float& v : x.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin))) v = 1 / (1 + std::exp(-v));
  });
}

template <class X>
void sigmoid_backward(std::span<const float> dy, std::span<const float> y, std::span<X> dx) {
  TERN_CHECK(dy.size() == dx.size() && y.size() == dx.size(), "sigmoid_backward: {}, {} and {} elements", dy.size(),
             y.size(), dx.size());
  for (size_t i = 0; i < dx.size(); ++i) dx[i] = stored<X>(dy[i] * y[i] * (1 - y[i]));
}

#define TERN_EXPERTS(X)                                                                                              \
  template void combine_rows<X>(std::span<const X>, int64_t, std::span<const int32_t>, std::span<const float>, bool, \
                                std::span<X>);                                                                       \
  template void row_dots<X>(std::span<const X>, std::span<const X>, int64_t, std::span<const int32_t>,               \
                            std::span<float>);                                                                       \
  template void scale_rows<X>(std::span<const float>, int64_t, std::span<const int32_t>, std::span<X>);              \
  template void sigmoid_backward<X>(std::span<const float>, std::span<const float>, std::span<X>);
TERN_EXPERTS(float)
TERN_EXPERTS(bf16)
#undef TERN_EXPERTS

}  // namespace tern
