#pragma once
// Plain twins (reference implementations) of kernels/cpu/activation.h, in doubles.

#include <cstdint>
#include <span>

#include "kernels/cpu/activation.h"

namespace tern {

/// act(x) and act'(x) of one number.
double activation_value_ref(Activation, double x);
double activation_slope_ref(Activation, double x);

/// Shapes and aliasing as in kernels/cpu/activation.h.
void gated_activation_ref(Activation, int64_t hidden, std::span<const double> gate_up, std::span<double> y);
void gated_activation_backward_ref(Activation, int64_t hidden, std::span<const double> gate_up,
                                   std::span<const double> dy, std::span<double> y, std::span<double> dgate_up);
void clamped_gate_ref(const ClampedGate&, int64_t hidden, std::span<const double> gate_up, std::span<double> y);
void clamped_gate_backward_ref(const ClampedGate&, int64_t hidden, std::span<const double> gate_up,
                               std::span<const double> dy, std::span<double> y, std::span<double> dgate_up);
void activation_ref(Activation, std::span<const double> x, std::span<double> y);
void activation_backward_ref(Activation, std::span<const double> x, std::span<const double> dy, std::span<double> y,
                             std::span<double> dx);

}  // namespace tern
