#pragma once
// Plain twins (reference implementations) of kernels/cpu/norm.h: in doubles, one loop per symbol
// of the formula. Tests compare the fast kernels with them, and models in f64 run on them.

#include <span>

namespace tern {

/// Shapes, aliasing and formulas as in kernels/cpu/norm.h.
void rms_norm_ref(std::span<const double> x, std::span<const double> w, double eps, std::span<double> y,
                  std::span<double> rstd, double offset = 0);
void rms_norm_backward_input_ref(std::span<const double> dy, std::span<const double> x, std::span<const double> w,
                                 std::span<const double> rstd, std::span<double> dx, bool add, double offset = 0);
void rms_norm_backward_weight_ref(std::span<const double> dy, std::span<const double> x, std::span<const double> rstd,
                                  std::span<double> dw);

void layer_norm_ref(std::span<const double> x, std::span<const double> w, std::span<const double> b, double eps,
                    std::span<double> y, std::span<double> mean, std::span<double> rstd);
void layer_norm_backward_input_ref(std::span<const double> dy, std::span<const double> x, std::span<const double> w,
                                   std::span<const double> mean, std::span<const double> rstd, std::span<double> dx,
                                   bool add);
void layer_norm_backward_weight_ref(std::span<const double> dy, std::span<const double> x, std::span<const double> mean,
                                    std::span<const double> rstd, std::span<double> dw, std::span<double> db);

}  // namespace tern
