#include "model/vocabulary_passes.h"

#include <algorithm>
#include <type_traits>

#include "base/wide_type.h"
#include "kernels/cpu/parallel.h"
#include "model/linear.h"
#include "model/ops.h"
#include "model/row_part_impl.h"
#include "model/unit_impl.h"

namespace tern {
namespace {

std::span<RowPart> row_parts_of(const Tensor& numbers_T3) {
  return {static_cast<RowPart*>(numbers_T3.data()), static_cast<size_t>(numbers_T3.rows())};
}

double wide_number(double x) { return x; }
double wide_number(float x) { return x; }
double wide_number(bf16 x) { return to_float(x); }
void put_number(double x, double& to) { to = x; }
void put_number(double x, float& to) { to = static_cast<float>(x); }
void put_number(double x, bf16& to) { to = to_bf16(static_cast<float>(x)); }

// A tile's logits become e, 0 in rows without a loss.
template <class T>
void softmax_of_part(double cap, const Interval& tokens, std::span<const int32_t> targets, const Tensor& logits,
                     std::span<RowPart> parts, std::span<T> slopes) {
  const auto vocab = static_cast<size_t>(tokens.size());
  const std::span<T> z = logits.span<T>();
  parallel_ranges(std::ssize(targets), 1, 1, [&](int64_t begin, int64_t end) {
    for (auto r = static_cast<size_t>(begin); r < static_cast<size_t>(end); ++r) {
      const std::span<T> row = z.subspan(r * vocab, vocab);
      if (targets[r] < 0) {
        std::ranges::fill(row, T{0});
        continue;
      }
      const int64_t place = place_in_part(tokens, targets[r]);
      parts[r] = part_of_row(row, place);
      if (place < 0) continue;
      const double share = cap == 0 ? 0 : parts[r].target / cap;
      slopes[r] = static_cast<T>(1 - share * share);
    }
  });
}

// Rows f·e - w·onehot of a tile, into `to`.
template <class From, class To>
void logits_gradient(const Interval& tokens, std::span<const int32_t> targets, double scale,
                     std::span<const double> factors, std::span<const From> softmax, std::span<const To> slopes,
                     std::span<To> to) {
  const auto vocab = static_cast<size_t>(tokens.size());
  parallel_ranges(std::ssize(targets), row_grain(tokens.size()), 1, [&](int64_t begin, int64_t end) {
    for (auto r = static_cast<size_t>(begin); r < static_cast<size_t>(end); ++r) {
      for (size_t v = r * vocab; v < (r + 1) * vocab; ++v)
        to[v] = static_cast<To>(factors[r] * wide_number(softmax[v]));
      if (const int64_t place = place_in_part(tokens, targets[r]); place >= 0)
        to[r * vocab + static_cast<size_t>(place)] -= static_cast<To>(scale * slopes[r]);
    }
  });
}

// Σ over parts of f·A - w·G, for each row.
template <class T>
void sum_of_parts(std::span<const HeadPartial> parts, std::span<const Tensor> factors, double scale,
                  const Tensor& dnormed) {
  const int64_t rows = dnormed.rows(), width = dnormed.count() / rows;
  parallel_ranges(rows, row_grain(width * std::ssize(parts)), 1, [&](int64_t begin, int64_t end) {
    std::vector<double> sum(static_cast<size_t>(width));
    for (int64_t r = begin; r < end; ++r) {
      std::ranges::fill(sum, 0.0);
      for (size_t p = 0; p < parts.size(); ++p) {
        const double factor = factors[p].span<double>()[static_cast<size_t>(r)];
        const std::span<T> a = parts[p].a_TD.rows_view(r, r + 1).span<T>(),
                           g = parts[p].g_TD.rows_view(r, r + 1).span<T>();
        for (size_t i = 0; i < sum.size(); ++i) sum[i] += factor * wide_number(a[i]) - scale * wide_number(g[i]);
      }
      const std::span<T> to = dnormed.rows_view(r, r + 1).span<T>();
      for (size_t i = 0; i < sum.size(); ++i) put_number(sum[i], to[i]);
    }
  });
}

}  // namespace

VocabularyPart vocabulary_part(const Linear& projection, Interval tokens) {
  TERN_CHECK(projection.bias.empty() && projection.branches.empty(), "vocabulary_part: a bias or {} adapters",
             projection.branches.size());
  return {tokens,
          {.weight = DenseWeight{dense_rows(projection).rows_view(tokens.begin, tokens.end)},
           .bias = {},
           .out = tokens.size(),
           .in = projection.in,
           .branches = {}}};
}

HeadPartial head_part_forward(const HeadSpec& u, const VocabularyPart& w, const Tensor& normed,
                              std::span<const int32_t> targets, HeadPartSaved& saved, const Compute& c) {
  const int64_t T = normed.rows(), D = u.width, V = w.tokens.size();
  const DType dtype = normed.dtype(), sums = wide_type(dtype);
  TERN_CHECK(std::ssize(targets) == T, "head_part_forward: {} targets for {} rows", targets.size(), T);
  HeadPartial left{.numbers_T3 = c.arena.allocate(DType::f64, {T, kNumbersOfARow}, MemoryClass::activations),
                   .a_TD = c.arena.zeros(dtype, {T, D}, MemoryClass::activations),
                   .g_TD = c.arena.zeros(dtype, {T, D}, MemoryClass::activations)};
  saved = {.softmax_TV = c.arena.allocate(dtype, {T, V}, MemoryClass::activations),
           .slopes_T = c.arena.zeros(sums, {T}, MemoryClass::activations)};
  const std::span<RowPart> parts = row_parts_of(left.numbers_T3);
  std::ranges::fill(parts, RowPart{});
  if (T == 0 || V == 0) return left;

  const int64_t rows = std::min(T, kHeadTile);
  const Tensor logits_tile = c.arena.allocate(sums, {rows, V}, MemoryClass::workspace);
  const Tensor capped_tile = u.softcap != 0 ? c.arena.allocate(sums, {rows, V}, MemoryClass::workspace) : Tensor{};
  const Tensor scratch = forward_scratch(w.rows, widest_tile(w.rows, T, dtype, c.multiply), dtype, c);
  for (int64_t begin = 0; begin < T; begin += rows) {
    const int64_t end = std::min(begin + rows, T), m = end - begin;
    const Tensor logits = logits_tile.rows_view(0, m), softmax = saved.softmax_TV.rows_view(begin, end);
    linear_forward(w.rows, normed.rows_view(begin, end), logits, scratch, c);
    Tensor capped;
    if (u.softcap != 0) {
      ops::softcap(u.softcap, logits);
      ops::copy(logits, capped = capped_tile.rows_view(0, m));
    }
    const auto of_tile = [&](auto all) { return all.subspan(static_cast<size_t>(begin), static_cast<size_t>(m)); };
    if (sums == DType::f64)
      softmax_of_part<double>(u.softcap, w.tokens, of_tile(targets), logits, of_tile(parts),
                              of_tile(saved.slopes_T.span<double>()));
    else
      softmax_of_part<float>(u.softcap, w.tokens, of_tile(targets), logits, of_tile(parts),
                             of_tile(saved.slopes_T.span<float>()));
    if (u.softcap != 0) ops::softcap_backward(u.softcap, capped, logits);
    dtype == sums ? ops::copy(logits, softmax) : ops::round_to(logits, softmax);
    linear_backward_input(w.rows, softmax, left.a_TD.rows_view(begin, end), c);
  }
  for (int64_t t = 0; t < T; ++t) {
    const int64_t place = place_in_part(w.tokens, targets[static_cast<size_t>(t)]);
    if (place < 0) continue;
    const Tensor g = left.g_TD.rows_view(t, t + 1);
    ops::copy(dense_rows(w.rows).rows_view(place, place + 1), g);
    if (u.softcap == 0) continue;
    ops::scale(sums == DType::f64 ? saved.slopes_T.span<double>()[static_cast<size_t>(t)]
                                  : wide_number(saved.slopes_T.span<float>()[static_cast<size_t>(t)]),
               g);
  }
  return left;
}

CombinedHead combine_head_parts(const HeadSpec& u, std::span<const HeadPartial> parts, std::span<const int32_t> targets,
                                double scale, const Compute& c) {
  TERN_CHECK(!parts.empty(), "combine_head_parts: no parts");
  const auto T = std::ssize(targets);
  const DType dtype = parts[0].a_TD.dtype();
  CombinedHead all{.dnormed_TD = c.arena.allocate(dtype, {T, u.width}, MemoryClass::activations), .factors_T = {}};
  for (size_t p = 0; p < parts.size(); ++p)
    all.factors_T.push_back(c.arena.zeros(DType::f64, {T}, MemoryClass::activations));
  if (T == 0) return all;
  std::vector<RowPart> of_row(parts.size());
  for (size_t r = 0; r < targets.size(); ++r) {
    if (targets[r] < 0) continue;
    for (size_t p = 0; p < parts.size(); ++p) of_row[p] = row_parts_of(parts[p].numbers_T3)[r];
    const RowPart row = joined(of_row);
    all.loss += loss_of_row(row);
    for (size_t p = 0; p < parts.size(); ++p)
      all.factors_T[p].span<double>()[r] = factor_of_part(of_row[p], row, scale);
  }
  ops::by_dtype(dtype, [&]<class Number>() { sum_of_parts<Number>(parts, all.factors_T, scale, all.dnormed_TD); });
  if (u.multiplier != 1) ops::scale(u.multiplier, all.dnormed_TD);
  return all;
}

void head_part_backward_weight(const VocabularyPart& w, const Tensor& normed, std::span<const int32_t> targets,
                               double scale, const Tensor& factors, const HeadPartSaved& saved,
                               const VocabularyPart& gradient, const Compute& c) {
  const int64_t T = normed.rows(), V = w.tokens.size();
  const DType dtype = normed.dtype(), sums = wide_type(dtype);
  TERN_CHECK(std::ssize(targets) == T && gradient.tokens == w.tokens,
             "head_part_backward_weight: {} targets for {} rows, or the gradient of another part", targets.size(), T);
  if (T == 0 || V == 0) return;
  const int64_t rows = std::min(T, kHeadTile);
  const Tensor tile = c.arena.allocate(sums, {rows, V}, MemoryClass::workspace);
  const Tensor rounded_tile = dtype == sums ? Tensor{} : c.arena.allocate(dtype, {rows, V}, MemoryClass::workspace);
  for (int64_t begin = 0; begin < T; begin += rows) {
    const int64_t end = std::min(begin + rows, T);
    Tensor dlogits = tile.rows_view(0, end - begin);
    const auto of_tile = [&](auto all) {
      return all.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
    };
    const Tensor softmax = saved.softmax_TV.rows_view(begin, end);
    ops::by_dtype(dtype, [&]<class From>() {
      using To = std::conditional_t<std::is_same_v<From, double>, double, float>;
      logits_gradient<From, To>(w.tokens, of_tile(targets), scale, of_tile(factors.span<double>()),
                                softmax.span<From>(), of_tile(saved.slopes_T.span<To>()), dlogits.span<To>());
    });
    if (!rounded_tile.empty()) {
      const Tensor rounded = rounded_tile.rows_view(0, end - begin);
      ops::round_to(dlogits, rounded);
      dlogits = rounded;
    }
    linear_backward_weight(w.rows, dlogits, normed.rows_view(begin, end), gradient.rows, c);
  }
}

}  // namespace tern
