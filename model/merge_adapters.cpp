#include "model/merge_adapters.h"

#include <cmath>

#include "base/error.h"
#include "model/number.h"
#include "model/ops.h"
#include "model/row_lengths.h"
#include "model/visit_weights.h"

namespace tern {
namespace {

double as_stored(double x, DType stored) {
  switch (stored) {
    case DType::f64:
      return x;
    case DType::f32:
      return number_as<float>(x);
    case DType::bf16:
      return to_float(number_as<bf16>(x));
    case DType::f16:
      return to_float(number_as<f16>(x));
    default:
      throw Error(ErrorKind::usage, "merge: weights are not written as {}; use f32, bf16, f16 or f64", name_of(stored));
  }
}

// Row n of s·B·A, added to `row`.
template <class T>
void add_branch(const Branch& b, int64_t n, std::span<double> row) {
  if (n < b.row_begin || n >= b.row_end) return;
  const std::span<const T> a = b.a.span<T>(), factors = b.b.span<T>();
  for (int64_t r = 0; r < b.rank; ++r) {
    const double factor = b.scale * static_cast<double>(factors[static_cast<size_t>((n - b.row_begin) * b.rank + r)]);
    const size_t first = static_cast<size_t>(r) * row.size();
    for (size_t k = 0; k < row.size(); ++k) row[k] += factor * static_cast<double>(a[first + k]);
  }
}

// Where row n has a magnitude: its change becomes that of the row at its own length, m·(w + change)/‖w + change‖ - w.
template <class T>
void lengthen(const Linear& linear, int64_t n, std::span<const T> w, std::span<double> change) {
  for (const Branch& b : linear.branches) {
    if (!b.has_magnitude || n < b.row_begin || n >= b.row_end) continue;
    double squares = 0;
    for (size_t k = 0; k < w.size(); ++k) squares += std::pow(static_cast<double>(w[k]) + change[k], 2);
    if (squares == 0) return;
    const double factor = magnitude_of(b, n - b.row_begin) / std::sqrt(squares);
    for (size_t k = 0; k < w.size(); ++k) {
      const auto own = static_cast<double>(w[k]);
      change[k] = factor * (own + change[k]) - own;
    }
  }
}

template <class T>
void merge_rows(Linear& linear, DType stored, MergeError& error) {
  const std::span<T> w = dense_rows(linear).span<T>();
  const auto out = static_cast<size_t>(linear.out), in = static_cast<size_t>(linear.in);
  std::vector<double> change(out), lost(out);
#pragma omp parallel for
  for (size_t n = 0; n < out; ++n) {
    std::vector<double> row(in);
    for (const Branch& b : linear.branches) add_branch<T>(b, static_cast<int64_t>(n), row);
    lengthen<T>(linear, static_cast<int64_t>(n), {w.data() + n * in, in}, row);
    for (size_t k = 0; k < in; ++k) {
      T& x = w[n * in + k];
      const double exact = static_cast<double>(x) + row[k], rounded = as_stored(exact, stored);
      change[n] += row[k] * row[k], lost[n] += (rounded - exact) * (rounded - exact);
      x = static_cast<T>(rounded);
    }
  }
  for (size_t n = 0; n < out; ++n) error.change += change[n], error.lost += lost[n];
  ++error.matrices;
}

}  // namespace

double MergeError::relative() const { return change > 0 ? std::sqrt(lost / change) : 0; }

MergeError merge_adapters(const ModelSpec& spec, ModelWeights& weights, DType stored) {
  MergeError error;
  for_each_linear(spec, weights, [&](const ParameterInfo&, Linear& linear) {
    if (linear.branches.empty()) return;
    dense_rows(linear).dtype() == DType::f64 ? merge_rows<double>(linear, stored, error)
                                             : merge_rows<float>(linear, stored, error);
    linear.branches.clear();
  });
  if (!std::isfinite(error.lost))
    throw Error(ErrorKind::usage, "merge: a merged weight is more than {} can hold; use bf16 or f32", name_of(stored));
  return error;
}

}  // namespace tern
