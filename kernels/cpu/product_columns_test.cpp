// Products that write into some columns of a wider matrix: the bits of the product alone, and no other element is touched.

#include <algorithm>
#include <vector>

#include "base/bug.h"
#include "base/threads_testing.h"
#include "kernels/cpu/coded_int8.h"
#include "kernels/cpu/coded_matmul.h"
#include "kernels/cpu/coded_rows_testing.h"
#include "kernels/cpu/matmul.h"
#include "kernels/cpu/product_columns.h"
#include "kernels/kernel_testing.h"

namespace tern {
namespace {

constexpr int64_t kBefore = 5, kBehind = 8;                      // other columns
constexpr int64_t kRowCounts[] = {0, 1, 7, 8, 17, 64, 97, 400};  // 400: more than are widened at a time

/// product(y, y_stride) with y's columns alone and in a wider matrix.
template <class Out, class Product>
void writes_its_columns_alone(int64_t m, int64_t n, Product&& product) {
  const int64_t stride = kBefore + n + kBehind;
  const std::vector<Out> old = random_values<Out>("y", m * stride, 10);
  std::vector<Out> want = old;
  Guarded<Out> got(old);
  for (const bool add : {false, true}) {
    std::vector<Out> alone(static_cast<size_t>(m * n));
    for (int64_t r = 0; r < m; ++r) std::copy_n(want.begin() + r * stride + kBefore, n, alone.begin() + r * n);
    product(add, std::span<Out>(alone), int64_t{0});
    for (int64_t r = 0; r < m; ++r) std::copy_n(alone.begin() + r * n, n, want.begin() + r * stride + kBefore);
    if (m > 0) product(add, got.span().subspan(kBefore, static_cast<size_t>(columns_extent(m, n, stride))), stride);
    EXPECT_TRUE(got.guards_intact());
    EXPECT_TRUE(same_bits<Out>(got.values(), want)) << "m " << m << ", n " << n << ", add " << add;
  }
}

template <class T, class Out>
void of_plain_weights(int64_t m, int64_t n, int64_t k) {
  const auto x = random_values<T>("x", m * k), w = random_values<T>("w", n * k), bias = random_values<T>("bias", n);
  std::vector<std::byte> packed(static_cast<size_t>(packed_bytes(DTypeOf<T>::value, n, k)));
  pack_weight<T>(std::span<const T>(w), n, k, packed);
  writes_its_columns_alone<Out>(m, n, [&](bool add, std::span<Out> y, int64_t stride) {
    multiply_exact<T, Out>(x, packed, bias, m, n, k, add, y, stride);
  });
  if (!reads_plain_weights(DTypeOf<T>::value)) return;
  const WeightRows<T> rows{w.data(), n};
  writes_its_columns_alone<Out>(m, n, [&](bool add, std::span<Out> y, int64_t stride) {
    multiply_plain<T, Out>(x, {&rows, 1}, bias, m, n, k, add, y, stride);
  });
}

TEST(ProductColumns, OfPlainWeights) {
  for_each_isa([] {
    for (const int64_t m : kRowCounts)
      for (const int64_t k : {31, 256, 515})
        for (const int threads : {1, 2})
          with_threads(threads, [&] {
            of_plain_weights<float, float>(m, 70, k);
            of_plain_weights<bf16, bf16>(m, 70, k);
            of_plain_weights<bf16, float>(m, 70, k);
          });
    with_threads(2, [] { of_plain_weights<bf16, bf16>(193, 19, 6001); });  // two stretches of rows that are widened
  });
}

template <class T, class Out>
void of_coded_weights(const CodedCase& c, int64_t m) {
  const auto x = random_values<T>("x", m * c.k), bias = random_values<T>("bias", c.n);
  if (multiplies_coded(DTypeOf<T>::value))
    writes_its_columns_alone<Out>(m, c.n, [&](bool add, std::span<Out> y, int64_t stride) {
      multiply_coded<T, Out>(x, c.pieces, bias, m, c.n, c.k, add, y, stride);
    });
  if (std::ranges::all_of(c.pieces, has_code_groups, &CodedRows::type))
    writes_its_columns_alone<Out>(m, c.n, [&](bool add, std::span<Out> y, int64_t stride) {
      multiply_coded_int8<T, Out>(x, c.pieces, bias, m, c.n, c.k, add, y, stride);
    });
}

TEST(ProductColumns, OfCodedWeights) {
  CodedCase plain{.k = 512}, mixed{.k = 512};
  plain.add(WeightType::bf16, 70);
  mixed.add(WeightType::q8_0, 40);
  mixed.add(WeightType::q4_k, 33);
  mixed.add(WeightType::lc4, 64);
  for_each_isa([&] {
    for (const CodedCase* c : {&plain, &mixed})
      for (const int64_t m : kRowCounts)
        for (const int threads : {1, 2})
          with_threads(threads, [&] {
            of_coded_weights<float, float>(*c, m);
            of_coded_weights<bf16, bf16>(*c, m);
            of_coded_weights<bf16, float>(*c, m);
          });
  });
}

TEST(ProductColumns, ASpanOfAnotherSizeIsABug) {
  const std::vector<float> x(6), w(8);
  std::vector<std::byte> packed(static_cast<size_t>(packed_bytes(DType::f32, 4, 2)));
  pack_weight<float>(std::span<const float>(w), 4, 2, packed);
  std::vector<float> y(3 * 9);
  const auto with = [&](size_t size, int64_t stride) {
    multiply_exact<float, float>(x, packed, {}, 3, 4, 2, false, std::span(y).first(size), stride);
  };
  with(2 * 9 + 4, 9);
  EXPECT_THROW(with(3 * 9, 9), Bug);
  EXPECT_THROW(with(2 * 9 + 3, 9), Bug);
  EXPECT_THROW(with(2 * 3 + 4, 3), Bug);  // rows that overlap
}

}  // namespace
}  // namespace tern
