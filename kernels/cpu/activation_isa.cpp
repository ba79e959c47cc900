// Activations on one instruction set. Derivatives are derived over kernels/ref/activation_ref.cpp.

#include "kernels/cpu/activation_table.h"
#include "kernels/cpu/elementwise_impl.h"
#include "kernels/cpu/vector_math_impl.h"

namespace tern::TERN_ISA_NAMESPACE {
namespace {

struct ValueAndSlope {
  Vec value, slope;
};

// x·s(v) with s the sigmoid: slope s + x·s(1-s)·v'. The caller that wants the value alone leaves the rest to the
// optimizer.
inline ValueAndSlope times_sigmoid(Vec x, Vec v, Vec dv) {
  const Vec s = sigmoid(v);
  return {x * s, fma(x * s * (1.0f - s), dv, s)};
}

template <Activation act>
inline ValueAndSlope evaluate(Vec x) {
  if constexpr (act == Activation::silu) {
    return times_sigmoid(x, x, splat(1.0f));
  } else if constexpr (act == Activation::gelu_erf) {
    const Normal n = normal(x);
    return {x * n.cdf, fma(x, n.density, n.cdf)};
  } else if constexpr (act == Activation::gelu_tanh) {  // ½(1 + tanh u) = s(2u), 2u = 2·sqrt(2/π)·(x + 0.044715 x³)
    const Vec z = min(max(x, splat(-12.0f)), splat(12.0f));  // s is 0 or 1 beyond; the cube would reach infinity
    const Vec cube = splat(0.044715f) * z * z;
    return times_sigmoid(x, splat(1.595769122f) * fma(cube, z, z),
                         splat(1.595769122f) * fma(cube, splat(3.0f), splat(1.0f)));
  } else {
    return {select(x <= 0.0f, splat(0.0f), x), select(x > 0.0f, splat(1.0f), splat(0.0f))};  // a NaN stays one
  }
}

template <Activation act, class T>
void gated(int64_t hidden, int64_t rows, const T* gate_up, T* y) {
  for (int64_t row = 0; row < rows; ++row, gate_up += 2 * hidden, y += hidden)
    for_each_lanes(hidden, [&](int64_t i, int64_t n) {
      store_some(y + i, evaluate<act>(load_some(gate_up + i, n)).value * load_some(gate_up + hidden + i, n), n);
    });
}

template <Activation act, class T>
void gated_backward(int64_t hidden, int64_t rows, const T* gate_up, const T* dy, T* y, T* dgate_up) {
  for (int64_t row = 0; row < rows; ++row)
    for_each_lanes(hidden, [&](int64_t i, int64_t n) {
      const int64_t at = row * hidden + i, gate_at = at + row * hidden, up_at = gate_at + hidden;
      const ValueAndSlope gate = evaluate<act>(load_some(gate_up + gate_at, n));
      const Vec d = load_some(dy + at, n), up = load_some(gate_up + up_at, n);
      if (y) store_some(y + at, gate.value * up, n);
      store_some(dgate_up + gate_at, d * up * gate.slope, n);
      store_some(dgate_up + up_at, d * gate.value, n);
    });
}

// g·σ(α·g) and its slope, and u + 1, with the masks of what lies within the bounds.
struct Clamped {
  ValueAndSlope gate;
  Vec up;
  VecInt gate_passes, up_passes;
};
inline Clamped clamp_both(Vec gate, Vec up, Vec alpha, Vec limit) {
  const Vec zero = splat(0.0f), low = zero - limit;
  const VecInt high_gate = gate > limit, high_up = up > limit, low_up = up < low;
  const Vec g = select(high_gate, limit, gate), u = select(high_up, limit, select(low_up, low, up));
  return {times_sigmoid(g, alpha * g, alpha), u + 1.0f, ~high_gate, ~(high_up | low_up)};
}

template <class T>
void clamped(const ClampedGate& c, int64_t hidden, int64_t rows, const T* gate_up, T* y) {
  const Vec alpha = splat(static_cast<float>(c.alpha)), limit = splat(static_cast<float>(c.limit));
  for (int64_t row = 0; row < rows; ++row, gate_up += 2 * hidden, y += hidden)
    for_each_lanes(hidden, [&](int64_t i, int64_t n) {
      const Clamped both = clamp_both(load_some(gate_up + i, n), load_some(gate_up + hidden + i, n), alpha, limit);
      store_some(y + i, both.gate.value * both.up, n);
    });
}

template <class T>
void clamped_backward(const ClampedGate& c, int64_t hidden, int64_t rows, const T* gate_up, const T* dy, T* y,
                      T* dgate_up) {
  const Vec alpha = splat(static_cast<float>(c.alpha)), limit = splat(static_cast<float>(c.limit)), zero = splat(0.0f);
  for (int64_t row = 0; row < rows; ++row)
    for_each_lanes(hidden, [&](int64_t i, int64_t n) {
      const int64_t at = row * hidden + i, gate_at = at + row * hidden, up_at = gate_at + hidden;
      const Clamped both = clamp_both(load_some(gate_up + gate_at, n), load_some(gate_up + up_at, n), alpha, limit);
      const Vec d = load_some(dy + at, n);
      if (y) store_some(y + at, both.gate.value * both.up, n);
      store_some(dgate_up + gate_at, select(both.gate_passes, d * both.up * both.gate.slope, zero), n);
      store_some(dgate_up + up_at, select(both.up_passes, d * both.gate.value, zero), n);
    });
}

template <Activation act, class T>
void plain(int64_t count, const T* x, T* y) {
  for_each_lanes(count, [&](int64_t i, int64_t n) { store_some(y + i, evaluate<act>(load_some(x + i, n)).value, n); });
}

template <Activation act, class T>
void plain_backward(int64_t count, const T* x, const T* dy, T* y, T* dx) {
  for_each_lanes(count, [&](int64_t i, int64_t n) {
    const ValueAndSlope at = evaluate<act>(load_some(x + i, n));
    const Vec d = load_some(dy + i, n);
    if (y) store_some(y + i, at.value, n);
    store_some(dx + i, d * at.slope, n);
  });
}

// One loop per activation: the choice is made once a call, not once a vector.
#define TERN_FOR_ACTIVATION(function, ...)                 \
  switch (act) {                                           \
    case Activation::silu:                                 \
      return function<Activation::silu>(__VA_ARGS__);      \
    case Activation::gelu_erf:                             \
      return function<Activation::gelu_erf>(__VA_ARGS__);  \
    case Activation::gelu_tanh:                            \
      return function<Activation::gelu_tanh>(__VA_ARGS__); \
    case Activation::relu:                                 \
      return function<Activation::relu>(__VA_ARGS__);      \
  }

template <class T>
void any_gated(Activation act, int64_t hidden, int64_t rows, const T* gate_up, T* y) {
  TERN_FOR_ACTIVATION(gated, hidden, rows, gate_up, y)
}
template <class T>
void any_gated_backward(Activation act, int64_t hidden, int64_t rows, const T* gate_up, const T* dy, T* y,
                        T* dgate_up) {
  TERN_FOR_ACTIVATION(gated_backward, hidden, rows, gate_up, dy, y, dgate_up)
}
template <class T>
void any_plain(Activation act, int64_t count, const T* x, T* y) {
  TERN_FOR_ACTIVATION(plain, count, x, y)
}
template <class T>
void any_plain_backward(Activation act, int64_t count, const T* x, const T* dy, T* y, T* dx) {
  TERN_FOR_ACTIVATION(plain_backward, count, x, dy, y, dx)
}

template <class T>
constexpr ActivationKernels<T> kKernels = {any_gated<T>,        any_gated_backward<T>, clamped<T>,
                                           clamped_backward<T>, any_plain<T>,          any_plain_backward<T>};

}  // namespace

const ActivationTable activation_table = {kKernels<float>, kKernels<bf16>};

}  // namespace tern::TERN_ISA_NAMESPACE
