#include "model/row_lengths.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/error.h"
#include "model/model_files.h"
#include "model/number.h"
#include "model/ops.h"
#include "model/visit_weights.h"

namespace tern {
namespace {

double number_at(const Tensor& t, int64_t i) {
  if (t.dtype() == DType::bf16) return static_cast<double>(to_float(t.span<bf16>()[static_cast<size_t>(i)]));
  return t.dtype() == DType::f64 ? t.span<double>()[static_cast<size_t>(i)]
                                 : static_cast<double>(t.span<float>()[static_cast<size_t>(i)]);
}

// Calls visit(dense rows, branches) for every linear that has a branch with a magnitude.
void for_each_lengthened(const ModelSpec& spec, ModelWeights& dense, ModelWeights& branches,
                         const std::function<void(const Linear&, Linear&)>& visit) {
  std::vector<const Linear*> rows;
  for_each_linear(spec, dense, [&](const ParameterInfo&, Linear& linear) { rows.push_back(&linear); });
  size_t at = 0;
  for_each_linear(spec, branches, [&](const ParameterInfo&, Linear& linear) {
    const Linear& own = *rows.at(at++);
    if (std::ranges::any_of(linear.branches, [](const Branch& b) { return b.has_magnitude; })) visit(own, linear);
  });
}

void measure(const Linear& rows, Linear& linear, Arena& arena) {
  const Tensor& w = dense_rows(rows);
  for (Branch& b : linear.branches) {
    if (!b.has_magnitude) continue;
    if (b.row_squares.empty())
      b.row_squares = arena.allocate(DType::f64, {b.row_end - b.row_begin}, MemoryClass::weights);
    const std::span<double> squares = b.row_squares.span<double>();
#pragma omp parallel for
    for (size_t row = 0; row < squares.size(); ++row) {
      squares[row] = 0;
      const int64_t first = (b.row_begin + static_cast<int64_t>(row)) * rows.in;
      for (int64_t k = 0; k < rows.in; ++k) squares[row] += std::pow(number_at(w, first + k), 2);
    }
  }
}

// The factors stand in the bytes of the squares, which they no longer need.
void fix(const Linear& rows, Linear& linear) {
  const Tensor& w = dense_rows(rows);
  Arena beside;
  for (Branch& b : linear.branches) {
    if (!b.has_magnitude) continue;
    const Tensor aw = beside.zeros(DType::f64, {b.rank, rows.out}, MemoryClass::staging);
    const std::span<double> sums = aw.span<double>();
#pragma omp parallel for
    for (int64_t row = b.row_begin; row < b.row_end; ++row)
      for (int64_t i = 0; i < b.rank; ++i) {
        double sum = 0;
        for (int64_t k = 0; k < rows.in; ++k) sum += number_at(b.a, i * rows.in + k) * number_at(w, row * rows.in + k);
        sums[static_cast<size_t>(i * rows.out + row)] = sum;
      }
    Branch made = b;
    made.factors = beside.allocate(DType::f64, b.row_squares.shape(), MemoryClass::staging);
    made.lengths = beside.allocate(DType::f64, b.row_squares.shape(), MemoryClass::staging);
    row_lengths(made, aw), row_factors(made);
    ops::copy(made.factors, b.row_squares);
    b.factors = std::move(b.row_squares);
    b.row_squares = {};
  }
}

bool has_rows(const Linear& linear) {
  const auto* w = std::get_if<DenseWeight>(&linear.weight);
  return w && !w->rows.empty();
}

// Reads the units that have magnitudes, one at a time, but for those in `without`.
void with_each_unit(const ModelSpec& spec, const std::string& model_dir, DType dtype, ModelWeights& branches,
                    const std::vector<bool>& without, const std::function<void(const Linear&, Linear&)>& visit) {
  if (!has_magnitudes(spec)) return;
  ModelSpec plain = with_adapters(spec, 0);
  for (Unit& unit : plain.units) unit.stored = {};
  for (size_t i = 0; i < spec.units.size(); ++i) {
    if (without[i] || !std::ranges::any_of(spec.units[i].adapters, [](const ModuleAdapter& a) { return a.magnitude; }))
      continue;
    std::vector<bool> elsewhere(spec.units.size(), true);
    elsewhere[i] = false;
    Arena beside;
    ModelWeights dense = load_weights(plain, model_dir, dtype, beside, elsewhere);
    for_each_lengthened(spec, dense, branches, [&](const Linear& rows, Linear& linear) {
      if (has_rows(rows)) visit(rows, linear);
    });
  }
}

}  // namespace

void row_lengths(const Branch& b, const Tensor& aw) {
  TERN_CHECK(!b.row_squares.empty(), "adapter of {}: its magnitudes stand beside rows that nobody measured",
             name_of(b.module));
  const std::span<double> all = b.lengths.span<double>();
  const int64_t rank = b.rank, in = b.a.count() / rank, out = aw.count() / rank;
  const auto n = static_cast<size_t>(rank);
  std::vector<double> aa(n * n);
  for (int64_t i = 0; i < rank; ++i)
    for (int64_t j = 0; j <= i; ++j) {
      double sum = 0;
      for (int64_t k = 0; k < in; ++k) sum += number_at(b.a, i * in + k) * number_at(b.a, j * in + k);
      aa[static_cast<size_t>(i * rank + j)] = aa[static_cast<size_t>(j * rank + i)] = sum;
    }
  const std::span<const double> squares = b.row_squares.span<double>();
#pragma omp parallel for
  for (size_t row = 0; row < all.size(); ++row) {
    double cross = 0, own = 0;
    for (size_t i = 0; i < n; ++i) {
      const double bi = number_at(b.b, static_cast<int64_t>(row * n + i));
      double along = 0;
      for (size_t j = 0; j < n; ++j) along += aa[i * n + j] * number_at(b.b, static_cast<int64_t>(row * n + j));
      cross += bi * number_at(aw, static_cast<int64_t>(i) * out + b.row_begin + static_cast<int64_t>(row));
      own += bi * along;
    }
    // Rounding may take a row that is next to nothing below zero.
    all[row] = std::sqrt(std::max(0.0, squares[row] + 2 * b.scale * cross + b.scale * b.scale * own));
  }
}

void row_factors(const Branch& b) {
  const std::vector<double> m = magnitudes(b);
  const std::span<double> factors = b.factors.span<double>(), lengths = b.lengths.span<double>();
  for (size_t row = 0; row < factors.size(); ++row) factors[row] = lengths[row] > 0 ? m[row] / lengths[row] : 1;
}

void magnitude_gradient(const Branch& b, const Tensor& dy, const Tensor& y, const Tensor& dm) {
  const std::span<const double> length = b.lengths.span<double>();
  const int64_t stride = y.count() / y.rows(), rows = y.rows();
#pragma omp parallel for
  for (size_t i = 0; i < length.size(); ++i) {
    if (length[i] == 0) continue;
    double sum = 0;
    for (int64_t t = 0; t < rows; ++t) {
      const int64_t at = t * stride + b.row_begin + static_cast<int64_t>(i);
      sum += number_at(dy, at) * number_at(y, at);
    }
    sum /= length[i];
    if (dm.dtype() == DType::f64)
      dm.span<double>()[i] += sum;
    else
      dm.span<float>()[i] += static_cast<float>(sum);
  }
}

double magnitude_of(const Branch& b, int64_t row) {
  return std::sqrt(b.row_squares.span<double>()[static_cast<size_t>(row)]) + number_at(b.magnitude, row);
}
std::vector<double> magnitudes(const Branch& b) {
  std::vector<double> m;
  for (int64_t row = 0; row < b.row_squares.count(); ++row) m.push_back(magnitude_of(b, row));
  return m;
}

bool has_magnitudes(const ModelSpec& spec) {
  return std::ranges::any_of(spec.units, [](const Unit& unit) {
    return std::ranges::any_of(unit.adapters, [](const ModuleAdapter& a) { return a.magnitude; });
  });
}

void measure_rows(const ModelSpec& spec, ModelWeights& dense, ModelWeights& branches, Arena& arena) {
  for_each_lengthened(spec, dense, branches, [&](const Linear& rows, Linear& linear) { measure(rows, linear, arena); });
}

void measure_rows(const ModelSpec& spec, const std::string& model_dir, DType dtype, ModelWeights& branches,
                  Arena& arena) {
  const auto measure_from = [&](const Linear& rows, Linear& linear) { measure(rows, linear, arena); };
  std::vector<bool> loaded(spec.units.size(), true);
  for_each_linear(spec, branches, [&](const ParameterInfo& info, const Linear& linear) {
    if (!has_rows(linear)) loaded[static_cast<size_t>(info.unit)] = false;
  });
  for_each_lengthened(spec, branches, branches, [&](const Linear& rows, Linear& linear) {
    if (has_rows(rows)) measure_from(rows, linear);
  });
  with_each_unit(spec, model_dir, dtype, branches, loaded, measure_from);
}

void fix_row_factors(const ModelSpec& spec, const std::string& model_dir, DType dtype, ModelWeights& branches) {
  with_each_unit(spec, model_dir, dtype, branches, std::vector<bool>(spec.units.size(), false),
                 [](const Linear& rows, Linear& linear) { fix(rows, linear); });
}

}  // namespace tern
