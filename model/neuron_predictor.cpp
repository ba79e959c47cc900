#include "model/neuron_predictor.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "kernels/lapack/product.h"
#include "kernels/lapack/symmetric_eigen.h"
#include "model/ops.h"
#include "model/sparse_mlp.h"

namespace tern {
namespace {

std::vector<double> doubles_of(const Tensor& t) {
  std::vector<double> x(static_cast<size_t>(t.count()));
  ops::by_dtype(t.dtype(), [&]<class T>() {
    const std::span<T> from = t.span<T>();
    for (size_t i = 0; i < x.size(); ++i)
      if constexpr (std::is_same_v<T, bf16>)
        x[i] = to_float(from[i]);
      else
        x[i] = from[i];
  });
  return x;
}

std::vector<double> covariance(const NeuronInputs& m) {
  const auto D = static_cast<size_t>(m.width);
  const auto count = static_cast<double>(m.rows);
  std::vector<double> c(D * D);
  for (size_t i = 0; i < D; ++i)
    for (size_t j = 0; j < D; ++j)
      c[i * D + j] = m.products_DD[i * D + j] / count - m.sum_D[i] / count * (m.sum_D[j] / count);
  return c;
}

// The rows of w times a square root of the symmetric matrix: (F, D), whose product with its transpose is w·C·wᵀ.
std::vector<double> times_root(std::span<const double> w, std::vector<double> symmetric, int64_t F, int64_t D) {
  SymmetricEigen e = symmetric_eigen(std::move(symmetric), D);
  for (int64_t k = 0; k < D; ++k)  // e.vectors: an eigenvector a row
    for (int64_t d = 0; d < D; ++d)
      e.vectors[static_cast<size_t>(k * D + d)] *= std::sqrt(std::max(e.values[static_cast<size_t>(k)], 0.0));
  return product_transposed(w, e.vectors, F, D, D);
}

std::vector<double> turned(std::span<const double> a, int64_t rows, int64_t columns) {
  std::vector<double> t(a.size());
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      t[static_cast<size_t>(j * rows + i)] = a[static_cast<size_t>(i * columns + j)];
  return t;
}

// The first `rank` main directions of preactivations, (F, R), orthonormal: u = P·v/√λ, where P·Pᵀ is their covariance and
// Pᵀ·P·v = λ·v. Directions without variance stay zero.
std::vector<double> main_directions(std::span<const double> p, int64_t F, int64_t D, int64_t rank) {
  const std::vector<double> pt = turned(p, F, D);
  const SymmetricEigen e = symmetric_eigen(product(pt, p, D, F, D), D);
  std::vector<double> u = product_transposed(p, std::span(e.vectors).first(static_cast<size_t>(rank * D)), F, D, rank);
  const double least = 1e-12 * std::max(e.values.front(), 0.0);
  for (int64_t r = 0; r < rank; ++r) {
    const double value = e.values[static_cast<size_t>(r)], factor = value > least ? 1 / std::sqrt(value) : 0;
    for (int64_t i = 0; i < F; ++i) u[static_cast<size_t>(i * rank + r)] *= factor;
  }
  return u;
}

double sum_of_products(const double* a, const double* b, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace

void add_inputs(NeuronInputs& m, std::span<const float> n, int64_t width) {
  const auto D = static_cast<size_t>(width);
  if (m.rows == 0) m.width = width, m.sum_D.assign(D, 0), m.products_DD.assign(D * D, 0);
  TERN_CHECK(m.width == width && n.size() % D == 0, "add_inputs: {} numbers in rows of {}", n.size(), width);
  const auto T = static_cast<int64_t>(n.size() / D);
  const std::vector<double> x(n.begin(), n.end());
  const std::vector<double> products = product(turned(x, T, width), x, width, T, width);
  for (size_t i = 0; i < products.size(); ++i) m.products_DD[i] += products[i];
  for (size_t i = 0; i < x.size(); ++i) m.sum_D[i % D] += x[i];
  m.rows += T;
}

NeuronPredictor fit_predictor(const Linear& up, const NeuronInputs& m, int64_t rank) {
  const int64_t F = up.out, D = up.in;
  TERN_CHECK(m.rows >= 2 && m.width == D && 1 <= rank && rank <= D, "fit_predictor: rank {} of {}, {} rows", rank, D,
             m.rows);
  const std::vector<double> w = doubles_of(dense_rows(up));
  const std::vector<double> p = times_root(w, covariance(m), F, D);
  const std::vector<double> u = main_directions(p, F, D, rank), ut = turned(u, F, rank);
  const std::vector<double> in = product(ut, w, rank, F, D), of_rest = product(ut, p, rank, F, D);
  const std::vector<double> bias = up.bias.empty() ? std::vector<double>(static_cast<size_t>(F)) : doubles_of(up.bias);
  std::vector<double> mean_in(static_cast<size_t>(rank)), mean(m.sum_D);
  for (double& x : mean) x /= static_cast<double>(m.rows);
  for (int64_t r = 0; r < rank; ++r)
    mean_in[static_cast<size_t>(r)] = sum_of_products(&in[static_cast<size_t>(r * D)], mean.data(), D);

  NeuronPredictor fit{
      .width = D, .hidden = F, .rank = rank, .in_RD = {in.begin(), in.end()}, .out_FR = {}, .offset_F = {}};
  for (int64_t i = 0; i < F; ++i) {
    const double* const row = &p[static_cast<size_t>(i * D)];
    const double* const of = &u[static_cast<size_t>(i * rank)];
    const double variance = sum_of_products(row, row, D);
    double error = 0;  // of what the product of low rank leaves
    for (int64_t d = 0; d < D; ++d) {
      double rest = row[d];
      for (int64_t r = 0; r < rank; ++r) rest -= of[r] * of_rest[static_cast<size_t>(r * D + d)];
      error += rest * rest;
    }
    const double scale = 1 / std::sqrt(std::max({error, 1e-12 * variance, 1e-30}));
    for (int64_t r = 0; r < rank; ++r) fit.out_FR.push_back(static_cast<float>(of[r] * scale));
    const double at_mean =
        sum_of_products(&w[static_cast<size_t>(i * D)], mean.data(), D) + bias[static_cast<size_t>(i)];
    fit.offset_F.push_back(static_cast<float>((at_mean - sum_of_products(of, mean_in.data(), rank)) * scale));
  }
  return fit;
}

void predict_scores(const NeuronPredictor& p, std::span<const float> n, std::span<float> scores) {
  TERN_CHECK(std::ssize(n) == p.width && std::ssize(scores) == p.hidden, "predict_scores: {} to {}", n.size(),
             scores.size());
  std::vector<float> h(static_cast<size_t>(p.rank));
  for (size_t r = 0; r < h.size(); ++r)
    h[r] = preactivation<float>(std::span(p.in_RD).subspan(r * n.size(), n.size()), n, 0);
  for (size_t i = 0; i < scores.size(); ++i)
    scores[i] = preactivation<float>(std::span(p.out_FR).subspan(i * h.size(), h.size()), h, p.offset_F[i]);
}

std::vector<int> named_neurons(const NeuronPredictor& p, std::span<const float> n) {
  std::vector<float> scores(static_cast<size_t>(p.hidden));
  predict_scores(p, n, scores);
  std::vector<int> named;
  for (int i = 0; i < p.hidden; ++i)
    if (!(scores[static_cast<size_t>(i)] < p.threshold)) named.push_back(i);
  return named;
}

float threshold_for(double recall, std::vector<float> scores) {
  TERN_CHECK(!scores.empty() && recall > 0 && recall <= 1, "threshold_for: recall {} of {}", recall, scores.size());
  std::ranges::sort(scores);
  const auto needed = static_cast<size_t>(std::ceil(recall * static_cast<double>(scores.size())));
  return scores[scores.size() - std::clamp<size_t>(needed, 1, scores.size())];
}

}  // namespace tern
