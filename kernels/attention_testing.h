#pragma once
// Shapes, guarded rows and sequences that the tests of both attentions share. Only *_test.cpp includes it.

#include <algorithm>

#include "kernels/cpu/attention.h"
#include "kernels/kernel_testing.h"
#include "kernels/ref/attention_ref.h"

namespace tern {

inline AttentionShape shape_of(int64_t heads, int64_t kv_heads, int64_t dim, int64_t window, int64_t gap = 0) {
  return {.heads = heads,
          .kv_heads = kv_heads,
          .head_dim = dim,
          .scale = 1 / std::sqrt(static_cast<float>(dim)),
          .window = window,
          .q_stride = heads * dim + gap,
          .kv_stride = kv_heads * dim + gap,
          .out_stride = heads * dim + 2 * gap};
}
inline const AttentionShape kShapes[] = {shape_of(1, 1, 1, 0),   shape_of(2, 1, 7, 0, 3),   shape_of(4, 2, 16, 5),
                                         shape_of(6, 2, 33, 0),  shape_of(3, 3, 64, 70, 5), shape_of(8, 1, 80, 1),
                                         shape_of(2, 2, 128, 0), shape_of(70, 1, 16, 64, 1)};
// What some families do to scores: caps, slopes, both directions.
inline const float kSlopes[] = {0.5f, 0.25f, 0.125f, 0.0625f};
inline std::vector<AttentionShape> variant_shapes() {
  AttentionShape capped = shape_of(4, 2, 16, 5, 3), sloped = shape_of(4, 1, 33, 0),
                 rounded_slopes = shape_of(4, 4, 8, 0, 1), both_ways = shape_of(3, 1, 20, 0),
                 all = shape_of(2, 1, 7, 0);
  capped.softcap = 2;
  sloped.slopes = rounded_slopes.slopes = all.slopes = kSlopes;
  rounded_slopes.slopes_in_bf16 = true, rounded_slopes.slope_factor = 0.3f;
  both_ways.causal = all.causal = false;
  all.softcap = 1.5f;
  return {capped, sloped, rounded_slopes, both_ways, all};
}
inline const std::vector<int64_t> kStarts = {0, 1, 6, 6, 70, 201};  // lengths 1, 5, 0, 64, 131

// `rows` rows of `used` values `stride` apart, NaN between: a kernel that reads beside a row shows it.
template <class T>
std::vector<T> strided(std::string_view name, int64_t rows, int64_t used, int64_t stride) {
  const auto values = random_values<T>(name, rows * used);
  std::vector<T> x(static_cast<size_t>(rows * stride), rounded<T>(std::nan("")));
  for (int64_t r = 0; r < rows; ++r) std::copy_n(values.begin() + r * used, used, x.begin() + r * stride);
  return x;
}
// NaN where no row is: comparisons look at rows only.
template <class T>
std::vector<T> rows_only(std::span<const T> x, int64_t used, int64_t stride) {
  std::vector<T> y;
  for (size_t r = 0; r < x.size() / static_cast<size_t>(stride); ++r)
    for (int64_t i = 0; i < used; ++i) y.push_back(x[r * static_cast<size_t>(stride) + static_cast<size_t>(i)]);
  return y;
}
template <class T>
testing::AssertionResult gaps_untouched(std::span<const T> x, int64_t used, int64_t stride) {
  for (size_t i = 0; i < x.size(); ++i)
    if (static_cast<int64_t>(i) % stride >= used && !std::isnan(value_of(x[i])))
      return testing::AssertionFailure() << "wrote at " << i;
  return testing::AssertionSuccess();
}

template <class T>
struct AttentionCase {
  AttentionShape shape;
  int64_t rows, q_used, kv_used;
  std::vector<T> q, k, v, dout;
  explicit AttentionCase(const AttentionShape& s, int64_t num_rows = kStarts.back())
      : shape(s),
        rows(num_rows),
        q_used(s.heads * s.head_dim),
        kv_used(s.kv_heads * s.head_dim),
        q(strided<T>("q", rows, q_used, s.q_stride)),
        k(strided<T>("k", rows, kv_used, s.kv_stride)),
        v(strided<T>("v", rows, kv_used, s.kv_stride)),
        dout(strided<T>("dout", rows, q_used, s.out_stride)) {}
};

// Plain rows of each sequence.
template <class T>
struct PlainSequences {
  std::vector<AttentionSequence<T>> list;
  PlainSequences(const AttentionShape& shape, const std::vector<int64_t>& starts, const T* k, const T* v) {
    for (size_t s = 0; s + 1 < starts.size(); ++s) {
      const int64_t n = starts[s + 1] - starts[s];
      list.push_back({.query_begin = starts[s],
                      .query_count = n,
                      .num_keys = n,
                      .keys = k + starts[s] * shape.kv_stride,
                      .values = v + starts[s] * shape.kv_stride});
    }
  }
};

struct Reference {
  std::vector<double> out, lse;
};
template <class T>
Reference reference_forward(const AttentionCase<T>& c, const std::vector<int64_t>& starts = kStarts) {
  Reference r{std::vector<double>(static_cast<size_t>(c.rows * c.shape.out_stride), std::nan("")),
              std::vector<double>(static_cast<size_t>(c.rows * c.shape.heads))};
  const auto q = doubles(c.q), k = doubles(c.k), v = doubles(c.v);
  const PlainSequences<double> sequences(c.shape, starts, k.data(), v.data());
  attention_forward_ref(c.shape, sequences.list, q.data(), r.out.data(), r.lse);
  return r;
}

}  // namespace tern
