#include "quantize/loftq.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "kernels/lapack/svd.h"
#include "quantize/gptq.h"

namespace tern {
namespace {

// rows += sign·b·a of the part's rows.
template <class T>
void add_product(const LowRankRows& part, int64_t in, double sign, std::span<T> rows) {
  if (part.a.empty()) return;
  const auto n = static_cast<size_t>(in), rank = static_cast<size_t>(part.rank);
#pragma omp parallel for
  for (int64_t row = part.row_begin; row < part.row_end; ++row) {
    const double* const b = part.b.data() + static_cast<size_t>(row - part.row_begin) * rank;
    T* const to = rows.data() + static_cast<size_t>(row) * n;
    for (size_t k = 0; k < n; ++k) {
      double sum = 0;
      for (size_t i = 0; i < rank; ++i) sum += b[i] * part.a[i * n + k];
      to[k] = static_cast<T>(static_cast<double>(to[k]) + sign * sum);
    }
  }
}

// The leading singular directions of the part's rows of `left`.
void take_directions(std::span<const double> left, int64_t in, LowRankRows& part) {
  const int64_t rows = part.row_end - part.row_begin, most = std::min(rows, in);
  TERN_CHECK(part.rank >= 1 && part.rank <= most, "loftq: rank {} of rows ({}, {})", part.rank, rows, in);
  const auto own = left.subspan(static_cast<size_t>(part.row_begin * in), static_cast<size_t>(rows * in));
  const ThinSvd svd = thin_svd({own.begin(), own.end()}, rows, in);
  const auto n = static_cast<size_t>(in), rank = static_cast<size_t>(part.rank), k = static_cast<size_t>(most);
  part.a.resize(rank * n), part.b.resize(static_cast<size_t>(rows) * rank);
  for (size_t i = 0; i < rank; ++i) {
    const double root = std::sqrt(svd.s[i]);
    for (size_t j = 0; j < n; ++j) part.a[i * n + j] = root * svd.vt[i * n + j];
    for (size_t o = 0; o < static_cast<size_t>(rows); ++o) part.b[o * rank + i] = root * svd.u[o * k + i];
  }
}

}  // namespace

LoftqCodes loftq(WeightType type, std::span<const float> w, int64_t in, std::vector<LowRankRows> parts, int rounds) {
  TERN_CHECK(rounds >= 1, "loftq: {} rounds", rounds);
  const int64_t n = static_cast<int64_t>(w.size()) / in;
  LoftqCodes codes{.rows = {}, .parts = std::move(parts), .errors = {}};
  for (const float x : w) codes.squares += static_cast<double>(x) * static_cast<double>(x);
  std::vector<double> left(w.size());
  for (int round = 0; round < rounds; ++round) {
    std::vector<float> coded(w.begin(), w.end());
    for (const LowRankRows& part : codes.parts) add_product(part, in, -1, std::span(coded));
    codes.rows = gptq_blocks(type, coded, n, in, {});  // `coded` is now what the codes stand for
    for (size_t i = 0; i < left.size(); ++i) left[i] = static_cast<double>(w[i]) - static_cast<double>(coded[i]);
    for (LowRankRows& part : codes.parts) {
      take_directions(left, in, part);
      add_product(part, in, -1, std::span(left));
    }
    double error = 0;
    for (const double x : left) error += x * x;
    codes.errors.push_back(error);
  }
  return codes;
}

}  // namespace tern
