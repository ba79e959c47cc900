#include "model/input_gate.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "model/number.h"
#include "model/ops.h"
#include "model/unit.h"

namespace tern {
namespace {

constexpr size_t kGateRowsAtOnce = 64;

double dot(std::span<const double> a, std::span<const double> b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

std::vector<double> times(std::span<const double> matrix, std::span<const double> x) {
  std::vector<double> y(matrix.size() / x.size());
  for (size_t i = 0; i < y.size(); ++i) y[i] = dot(matrix.subspan(i * x.size(), x.size()), x);
  return y;
}

}  // namespace

GatePass run_gate(const InputGate& gate, std::vector<double> p) {
  TERN_CHECK(std::ssize(p) == gate.width && gate.hidden > 0, "gate of {} inputs, p has {}", gate.width, p.size());
  GatePass pass{.p = std::move(p), .sum = {}, .hidden = {}, .out = {}};
  pass.sum = times(gate.first, pass.p);
  pass.hidden = pass.sum;
  for (double& x : pass.hidden) x /= 1 + std::exp(-x);
  pass.out = times(gate.second, pass.hidden);
  const double norms = std::sqrt(dot(pass.out, pass.out)) * std::sqrt(dot(gate.key, gate.key));
  pass.cosine = norms > 0 ? dot(pass.out, gate.key) / norms : 0;
  pass.gate = std::abs(std::tanh(2 * pass.cosine));  // 2σ(4c) - 1 = tanh(2c)
  return pass;
}

std::vector<double> mean_embedding(const ModelSpec& spec, const ModelWeights& weights,
                                   std::span<const int32_t> tokens) {
  TERN_CHECK(!tokens.empty(), "gate: a sequence without a prompt");
  Arena arena;  // of few rows, beside what is counted
  const UnitWeights& embedding = weights.units.front();
  std::vector<double> mean;
  for (size_t begin = 0; begin < tokens.size(); begin += kGateRowsAtOnce) {
    const std::span<const int32_t> some = tokens.subspan(begin, std::min(kGateRowsAtOnce, tokens.size() - begin));
    Rows rows = make_rows(some, {0, std::ssize(some)}, nullptr);
    for (int32_t& position : rows.positions) position += static_cast<int32_t>(begin);
    const Tensor x = unit_forward(spec, 0, embedding, rows, {}, nullptr, nullptr, {.arena = arena});
    mean.resize(static_cast<size_t>(x.count() / x.rows()));
    ops::by_dtype(x.dtype(), [&]<class T>() {
      const std::span<const T> numbers = x.span<T>();
      for (size_t i = 0; i < numbers.size(); ++i) mean[i % mean.size()] += number_as<double>(numbers[i]);
    });
  }
  for (double& x : mean) x /= static_cast<double>(tokens.size());
  return mean;
}

}  // namespace tern
