#include "model/taken_factors.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "kernels/lapack/svd.h"
#include "model/allocate_weights.h"
#include "model/initial_weights.h"
#include "model/model_files.h"
#include "model/number.h"
#include "model/ops.h"
#include "model/visit_weights.h"

namespace tern {
namespace {

struct Factors {
  std::vector<double> a, b;  // (rank, in), (out, rank)
};

std::vector<double> numbers_of(const Tensor& t) {
  std::vector<double> numbers(static_cast<size_t>(t.count()));
  ops::by_dtype(t.dtype(), [&]<class T>() {
    const std::span<const T> from = t.span<T>();
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = number_as<double>(from[i]);
  });
  return numbers;
}

// By way of f32, as masters of bf16 weights are rounded.
void put_numbers(const std::vector<double>& numbers, const Tensor& t) {
  ops::by_dtype(t.dtype(), [&]<class T>() {
    const std::span<T> to = t.span<T>();
    for (size_t i = 0; i < numbers.size(); ++i) to[i] = number_as<T>(numbers[i]);
  });
}

// u·diag(√(σ/s)) and diag(√(σ/s))·vt of the leading directions.
Factors leading_directions(const std::vector<double>& w, int64_t out, int64_t in, int64_t rank, double scale) {
  const ThinSvd svd = thin_svd(w, out, in);
  const auto k = static_cast<size_t>(std::min(out, in)), r = static_cast<size_t>(rank), n = static_cast<size_t>(in);
  Factors f{std::vector<double>(r * n), std::vector<double>(static_cast<size_t>(out) * r)};
  for (size_t i = 0; i < r; ++i) {
    const double root = std::sqrt(svd.s[i] / scale);
    for (size_t j = 0; j < n; ++j) f.a[i * n + j] = root * svd.vt[i * n + j];
    for (size_t o = 0; o < static_cast<size_t>(out); ++o) f.b[o * r + i] = root * svd.u[o * k + i];
  }
  return f;
}

Factors first_of_qr(const std::vector<double>& w, int64_t out, int64_t in, int64_t rank) {
  const ThinQr qr = thin_qr(w, out, in);
  const auto k = static_cast<size_t>(std::min(out, in)), r = static_cast<size_t>(rank);
  Factors f{{qr.r.begin(), qr.r.begin() + static_cast<std::ptrdiff_t>(rank * in)},
            std::vector<double>(static_cast<size_t>(out) * r)};
  for (size_t o = 0; o < static_cast<size_t>(out); ++o)
    for (size_t i = 0; i < r; ++i) f.b[o * r + i] = qr.q[o * k + i];
  return f;
}

Factors factors_of(const Linear& rows, const Branch& b, AdapterInit init) {
  TERN_CHECK(b.pool == 1 && b.repeat == 1 && !b.has_magnitude && !b.is_elastic,
             "adapter of {}: means, magnitudes or shares beside factors of the weight", name_of(b.module));
  const int64_t out = b.row_end - b.row_begin;
  if (b.rank > std::min(out, rows.in))
    throw Error(ErrorKind::usage,
                "--rank: {}; --init takes directions of the weight, of which {} ({}, {}) has {}; lower --rank or name "
                "other matrices with --target",
                b.rank, name_of(b.module), out, rows.in, std::min(out, rows.in));
  const std::vector<double> w = numbers_of(dense_rows(rows).rows_view(b.row_begin, b.row_end));
  return init == AdapterInit::pissa ? leading_directions(w, out, rows.in, b.rank, b.scale)
                                    : first_of_qr(w, out, rows.in, b.rank);
}

// rows -= s·b·a
void subtract(const Branch& b, const Linear& linear) {
  const std::vector<double> a = numbers_of(b.a), bb = numbers_of(b.b);
  const auto in = static_cast<size_t>(linear.in), rank = static_cast<size_t>(b.rank);
  const Tensor own = dense_rows(linear).rows_view(b.row_begin, b.row_end);
  ops::by_dtype(own.dtype(), [&]<class T>() {
    const std::span<T> w = own.span<T>();
#pragma omp parallel for
    for (int64_t row = 0; row < b.row_end - b.row_begin; ++row) {
      const auto o = static_cast<size_t>(row);
      for (size_t j = 0; j < in; ++j) {
        double sum = 0;
        for (size_t i = 0; i < rank; ++i) sum += bb[o * rank + i] * a[i * in + j];
        w[o * in + j] = number_as<T>(number_as<double>(w[o * in + j]) - b.scale * sum);
      }
    }
  });
}

void put_factors(const Linear& rows, AdapterInit init, Branch& b) {
  const Factors f = factors_of(rows, b, init);
  put_numbers(f.a, b.a), put_numbers(f.b, b.b);
}

// Two branches' tensors as one of twice the rank.
Branch doubled(const Branch& now, const Branch& first, Arena& arena) {
  Branch both = now;
  both.rank = 2 * now.rank;
  const int64_t in = now.a.count() / now.rank, out = now.row_end - now.row_begin;
  both.a = arena.allocate(now.a.dtype(), {both.rank, in}, MemoryClass::staging);
  both.b = arena.allocate(now.b.dtype(), {out, both.rank}, MemoryClass::staging);
  ops::copy(now.a, both.a.rows_view(0, now.rank));
  ops::copy(first.a, both.a.rows_view(now.rank, both.rank));
  const std::vector<double> of_now = numbers_of(now.b), of_first = numbers_of(first.b);
  std::vector<double> b(static_cast<size_t>(out * both.rank));
  const auto r = static_cast<size_t>(now.rank);
  for (size_t o = 0; o < static_cast<size_t>(out); ++o)
    for (size_t i = 0; i < r; ++i) {
      b[o * 2 * r + i] = of_now[o * r + i];
      b[o * 2 * r + r + i] = -of_first[o * r + i];
    }
  put_numbers(b, both.b);
  return both;
}

}  // namespace

bool takes_factors(AdapterInit init) { return init == AdapterInit::pissa || init == AdapterInit::olora; }

void take_factors(const ModelSpec& spec, ModelWeights& weights, AdapterInit init) {
  for_each_linear(spec, weights, [&](const ParameterInfo&, Linear& linear) {
    for (Branch& b : linear.branches) {
      put_factors(linear, init, b);
      subtract(b, linear);
    }
  });
}

void read_taken_factors(const ModelSpec& spec, const std::string& model_dir, DType dtype, AdapterInit init,
                        ModelWeights& adapters) {
  const ModelSpec plain = with_adapters(spec, 0);
  std::vector<Linear*> places;
  for_each_linear(spec, adapters, [&](const ParameterInfo&, Linear& linear) { places.push_back(&linear); });
  for (size_t i = 0; i < spec.units.size(); ++i) {
    if (spec.units[i].adapters.empty()) continue;
    std::vector<bool> elsewhere(spec.units.size(), true);
    elsewhere[i] = false;
    Arena beside;
    ModelWeights dense = load_weights(plain, model_dir, dtype, beside, elsewhere);
    auto place = places.begin();
    for_each_linear(plain, dense, [&](const ParameterInfo& info, const Linear& rows) {
      Linear& linear = **place++;
      if (info.unit != static_cast<int>(i)) return;
      for (Branch& b : linear.branches) put_factors(rows, init, b);
    });
  }
}

WholeAdapter with_taken_factors(const ModelSpec& spec, const PeftConfig& config, const std::string& model_dir,
                                DType dtype, AdapterInit init, const ModelWeights& trained, Arena& arena) {
  WholeAdapter whole{spec, config, {}};
  for (Unit& unit : whole.spec.units)
    for (ModuleAdapter& a : unit.adapters) a.rank *= 2;
  whole.config.rank *= 2;
  whole.config.alpha *= config.rank_stabilized ? std::sqrt(2.0) : 2.0;
  ModelWeights first = empty_weights(spec);
  for_each_adapter(spec, first, [&](const ParameterInfo& info, Tensor& t) {
    t = arena.allocate(dtype, info.shape, MemoryClass::staging);
  });
  read_taken_factors(spec, model_dir, dtype, init, first);
  whole.weights = empty_weights(whole.spec);
  std::vector<const Linear*> now, began;
  ModelWeights shared = trained;  // tensors are handles
  for_each_linear(spec, shared, [&](const ParameterInfo&, const Linear& linear) { now.push_back(&linear); });
  for_each_linear(spec, first, [&](const ParameterInfo&, const Linear& linear) { began.push_back(&linear); });
  size_t at = 0;
  for_each_linear(whole.spec, whole.weights, [&](const ParameterInfo&, Linear& linear) {
    for (size_t i = 0; i < linear.branches.size(); ++i)
      linear.branches[i] = doubled(now[at]->branches[i], began[at]->branches[i], arena);
    ++at;
  });
  return whole;
}

}  // namespace tern
