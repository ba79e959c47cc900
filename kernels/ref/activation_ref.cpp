#include "kernels/ref/activation_ref.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tern {
namespace {
const double kGelu = std::sqrt(2 / std::numbers::pi);
constexpr double kGeluCube = 0.044715;
}  // namespace

double activation_value_ref(Activation act, double x) {
  switch (act) {
    case Activation::silu:
      return x / (1 + std::exp(-x));
    case Activation::gelu_erf:
      return x * 0.5 * std::erfc(-x / std::numbers::sqrt2);
    case Activation::gelu_tanh:
      return x / (1 + std::exp(-2 * kGelu * (x + kGeluCube * x * x * x)));  // ½(1+tanh u) = σ(2u)
    case Activation::relu:
      return x > 0 ? x : 0;
  }
  return 0;
}

// silu: s = σ(x), s' = s(1-s), so s + x·s(1-s).   gelu_erf: x·Φ(x), so Φ + x·φ.
// gelu_tanh: x·s(v), v = 2u = 2c(x + 0.044715x³), so s + x·s(1-s)·2c(1 + 3·0.044715x²).
double activation_slope_ref(Activation act, double x) {
  switch (act) {
    case Activation::silu: {
      const double s = 1 / (1 + std::exp(-x));
      return s + x * s * (1 - s);
    }
    case Activation::gelu_erf: {
      const double density = std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi);
      return 0.5 * std::erfc(-x / std::numbers::sqrt2) + x * density;
    }
    case Activation::gelu_tanh: {
      const double s = 1 / (1 + std::exp(-2 * kGelu * (x + kGeluCube * x * x * x)));
      return s + x * s * (1 - s) * 2 * kGelu * (1 + 3 * kGeluCube * x * x);
    }
    case Activation::relu:
      return x > 0 ? 1 : 0;
  }
  return 0;
}

void gated_activation_ref(Activation act, int64_t hidden, std::span<const double> gate_up, std::span<double> y) {
  const auto h = static_cast<size_t>(hidden);
  for (size_t i = 0; i < y.size(); ++i) {
    const size_t gate = i / h * 2 * h + i % h, up = gate + h;
    y[i] = activation_value_ref(act, gate_up[gate]) * gate_up[up];
  }
}

void gated_activation_backward_ref(Activation act, int64_t hidden, std::span<const double> gate_up,
                                   std::span<const double> dy, std::span<double> y, std::span<double> dgate_up) {
  const auto h = static_cast<size_t>(hidden);
  for (size_t i = 0; i < dy.size(); ++i) {
    const size_t gate = i / h * 2 * h + i % h, up = gate + h;
    const double d = dy[i], x = gate_up[gate], factor = gate_up[up];  // the results may lie where these do
    if (!y.empty()) y[i] = activation_value_ref(act, x) * factor;
    dgate_up[gate] = d * factor * activation_slope_ref(act, x);
    dgate_up[up] = d * activation_value_ref(act, x);
  }
}

void clamped_gate_ref(const ClampedGate& c, int64_t hidden, std::span<const double> gate_up, std::span<double> y) {
  const auto h = static_cast<size_t>(hidden);
  for (size_t i = 0; i < y.size(); ++i) {
    const size_t at = i / h * 2 * h + i % h;
    const double gate = std::min(gate_up[at], c.limit), up = std::clamp(gate_up[at + h], -c.limit, c.limit);
    y[i] = gate / (1 + std::exp(-c.alpha * gate)) * (up + 1);
  }
}

void clamped_gate_backward_ref(const ClampedGate& c, int64_t hidden, std::span<const double> gate_up,
                               std::span<const double> dy, std::span<double> y, std::span<double> dgate_up) {
  const auto h = static_cast<size_t>(hidden);
  for (size_t i = 0; i < dy.size(); ++i) {
    const size_t at = i / h * 2 * h + i % h;
    const double d = dy[i], whole_gate = gate_up[at], whole_up = gate_up[at + h];  // the results may lie where these do
    const double gate = std::min(whole_gate, c.limit), up = std::clamp(whole_up, -c.limit, c.limit);
    const double s = 1 / (1 + std::exp(-c.alpha * gate));
    if (!y.empty()) y[i] = gate * s * (up + 1);
    dgate_up[at] = whole_gate > c.limit ? 0 : d * (up + 1) * (s + c.alpha * gate * s * (1 - s));
    dgate_up[at + h] = std::abs(whole_up) > c.limit ? 0 : d * gate * s;
  }
}

void activation_ref(Activation act, std::span<const double> x, std::span<double> y) {
  for (size_t i = 0; i < x.size(); ++i) y[i] = activation_value_ref(act, x[i]);
}

void activation_backward_ref(Activation act, std::span<const double> x, std::span<const double> dy, std::span<double> y,
                             std::span<double> dx) {
  for (size_t i = 0; i < x.size(); ++i) {
    const double at = x[i], d = dy[i];
    if (!y.empty()) y[i] = activation_value_ref(act, at);
    dx[i] = d * activation_slope_ref(act, at);
  }
}

}  // namespace tern
