#pragma once
// Activations of the MLP, forward and backward, T float or bf16, computed in f32. Twin: kernels/ref/activation_ref.h.

#include <cstdint>
#include <span>

namespace tern {

enum class Activation : uint8_t { silu, gelu_erf, gelu_tanh, relu };

/// y = act(gate)·up. Shapes: gate_up (rows, 2·hidden): gate first, then up; y (rows, hidden).
/// Source  SwiGLU, GeGLU: Shazeer 2020, arXiv:2002.05202.
template <class T>
void gated_activation(Activation, int64_t hidden, std::span<const T> gate_up, std::span<T> y);
/// dgate = dy·up·act'(gate), dup = dy·act(gate); dgate_up may be gate_up. Unless y is empty, it receives the forward's
/// result again, with the same bits; y may be dy.
template <class T>
void gated_activation_backward(Activation, int64_t hidden, std::span<const T> gate_up, std::span<const T> dy,
                               std::span<T> y, std::span<T> dgate_up);

/// The gate of gpt_oss: y = g·σ(α·g)·(u + 1), with g = min(gate, limit) and u = up clamped to ±limit. Shapes and
/// aliasing as above. A number beyond its bound has no gradient. NaN stays NaN.
///   dgate = dy·(u + 1)·(s + α·g·s(1 − s)) for gate <= limit, else 0, s = σ(α·g);  dup = dy·g·s for |up| <= limit, else 0
/// Source  transformers 5.24, GptOssExperts, observed by running it (dev/golden/families.py).
struct ClampedGate {
  double alpha = 1.702, limit = 7;
};
template <class T>
void clamped_gate(const ClampedGate&, int64_t hidden, std::span<const T> gate_up, std::span<T> y);
template <class T>
void clamped_gate_backward(const ClampedGate&, int64_t hidden, std::span<const T> gate_up, std::span<const T> dy,
                           std::span<T> y, std::span<T> dgate_up);

/// y = act(x). Backward: dx = dy·act'(x), and y as in gated_activation_backward. dx may share memory with x if y is dy or empty, and with dy if y is not dy.
template <class T>
void activation(Activation, std::span<const T> x, std::span<T> y);
template <class T>
void activation_backward(Activation, std::span<const T> x, std::span<const T> dy, std::span<T> y, std::span<T> dx);

}  // namespace tern
