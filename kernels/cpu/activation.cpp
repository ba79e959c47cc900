#include "kernels/cpu/activation.h"

#include <type_traits>

#include "base/error.h"
#include "kernels/cpu/activation_table.h"
#include "kernels/cpu/parallel.h"
#include "kernels/dispatch.h"

namespace tern {
namespace {

template <class T>
const ActivationKernels<T>& active() {
  const ActivationTable& table = TERN_TABLE_OF(activation_table, active_isa());
  if constexpr (std::is_same_v<T, float>)
    return table.f32;
  else
    return table.bfloat16;
}

constexpr int64_t kGrain = kParallelGrain / 4;  // an exponential each
constexpr int64_t kUnit = 64;                   // ranges of whole cache lines

}  // namespace

template <class T>
void gated_activation(Activation act, int64_t hidden, std::span<const T> gate_up, std::span<T> y) {
  TERN_CHECK(hidden > 0 && y.size() % static_cast<size_t>(hidden) == 0 && gate_up.size() == 2 * y.size(),
             "gated_activation: {} elements from {}, hidden {}", y.size(), gate_up.size(), hidden);
  const auto kernel = active<T>().gated;
  parallel_ranges(static_cast<int64_t>(y.size()) / hidden, row_grain(4 * hidden), 1, [&](int64_t begin, int64_t end) {
    kernel(act, hidden, end - begin, gate_up.data() + begin * 2 * hidden, y.data() + begin * hidden);
  });
}

template <class T>
void gated_activation_backward(Activation act, int64_t hidden, std::span<const T> gate_up, std::span<const T> dy,
                               std::span<T> y, std::span<T> dgate_up) {
  TERN_CHECK(hidden > 0 && dy.size() % static_cast<size_t>(hidden) == 0 && gate_up.size() == 2 * dy.size() &&
                 dgate_up.size() == gate_up.size() && (y.empty() || y.size() == dy.size()),
             "gated_activation_backward: {} elements from {} and {}, {} of the forward, hidden {}", dgate_up.size(),
             gate_up.size(), dy.size(), y.size(), hidden);
  const auto kernel = active<T>().gated_backward;
  parallel_ranges(static_cast<int64_t>(dy.size()) / hidden, row_grain(4 * hidden), 1, [&](int64_t begin, int64_t end) {
    const int64_t from = begin * hidden;
    kernel(act, hidden, end - begin, gate_up.data() + 2 * from, dy.data() + from, y.empty() ? nullptr : y.data() + from,
           dgate_up.data() + 2 * from);
  });
}

template <class T>
void clamped_gate(const ClampedGate& c, int64_t hidden, std::span<const T> gate_up, std::span<T> y) {
  TERN_CHECK(c.limit > 0 && hidden > 0 && y.size() % static_cast<size_t>(hidden) == 0 && gate_up.size() == 2 * y.size(),
             "clamped_gate: {} elements from {}, hidden {}, limit {}", y.size(), gate_up.size(), hidden, c.limit);
  const auto kernel = active<T>().clamped;
  parallel_ranges(static_cast<int64_t>(y.size()) / hidden, row_grain(4 * hidden), 1, [&](int64_t begin, int64_t end) {
    kernel(c, hidden, end - begin, gate_up.data() + begin * 2 * hidden, y.data() + begin * hidden);
  });
}

template <class T>
void clamped_gate_backward(const ClampedGate& c, int64_t hidden, std::span<const T> gate_up, std::span<const T> dy,
                           std::span<T> y, std::span<T> dgate_up) {
  TERN_CHECK(c.limit > 0 && hidden > 0 && dy.size() % static_cast<size_t>(hidden) == 0 &&
                 gate_up.size() == 2 * dy.size() && dgate_up.size() == gate_up.size() &&
                 (y.empty() || y.size() == dy.size()),
             "clamped_gate_backward: {} elements from {} and {}, {} of the forward, hidden {}, limit {}",
             dgate_up.size(), gate_up.size(), dy.size(), y.size(), hidden, c.limit);
  const auto kernel = active<T>().clamped_backward;
  parallel_ranges(static_cast<int64_t>(dy.size()) / hidden, row_grain(4 * hidden), 1, [&](int64_t begin, int64_t end) {
    const int64_t from = begin * hidden;
    kernel(c, hidden, end - begin, gate_up.data() + 2 * from, dy.data() + from, y.empty() ? nullptr : y.data() + from,
           dgate_up.data() + 2 * from);
  });
}

template <class T>
void activation(Activation act, std::span<const T> x, std::span<T> y) {
  TERN_CHECK(x.size() == y.size(), "activation: {} elements to {}", x.size(), y.size());
  const auto kernel = active<T>().plain;
  parallel_ranges(static_cast<int64_t>(x.size()), kGrain, kUnit,
                  [&](int64_t begin, int64_t end) { kernel(act, end - begin, x.data() + begin, y.data() + begin); });
}

template <class T>
void activation_backward(Activation act, std::span<const T> x, std::span<const T> dy, std::span<T> y, std::span<T> dx) {
  TERN_CHECK(x.size() == dy.size() && x.size() == dx.size() && (y.empty() || y.size() == x.size()),
             "activation_backward: {} elements, {} and {}, {} of the forward", x.size(), dy.size(), dx.size(),
             y.size());
  const auto kernel = active<T>().plain_backward;
  parallel_ranges(static_cast<int64_t>(x.size()), kGrain, kUnit, [&](int64_t begin, int64_t end) {
    kernel(act, end - begin, x.data() + begin, dy.data() + begin, y.empty() ? nullptr : y.data() + begin,
           dx.data() + begin);
  });
}

#define TERN_INSTANTIATE(T)                                                                                   \
  template void clamped_gate<T>(const ClampedGate&, int64_t, std::span<const T>, std::span<T>);               \
  template void clamped_gate_backward<T>(const ClampedGate&, int64_t, std::span<const T>, std::span<const T>, \
                                         std::span<T>, std::span<T>);                                         \
  template void gated_activation<T>(Activation, int64_t, std::span<const T>, std::span<T>);                   \
  template void gated_activation_backward<T>(Activation, int64_t, std::span<const T>, std::span<const T>,     \
                                             std::span<T>, std::span<T>);                                     \
  template void activation<T>(Activation, std::span<const T>, std::span<T>);                                  \
  template void activation_backward<T>(Activation, std::span<const T>, std::span<const T>, std::span<T>, std::span<T>);
TERN_INSTANTIATE(float)
TERN_INSTANTIATE(bf16)

}  // namespace tern
