#pragma once
// Plain twins (reference implementations) of kernels/cpu/router.h and kernels/cpu/experts.h, in doubles, one token after the other. Of equal scores
// the expert with the lower number wins here. Tests against these twins have no equal scores; dev/golden/routers.py makes the data that tests those.

#include <cstdint>
#include <span>

#include "kernels/cpu/router.h"

namespace tern {

/// Shapes as in kernels/cpu/router.h and kernels/cpu/experts.h.
void choose_experts_ref(const Router&, std::span<const double> bias, std::span<double> scores,
                        std::span<int32_t> chosen, std::span<double> weights);
void choose_experts_backward_ref(const Router&, std::span<const double> scores, std::span<const int32_t> chosen,
                                 std::span<const double> dweights, std::span<double> dlogits);
void combine_rows_ref(std::span<const double> x, int64_t width, std::span<const int32_t> rows,
                      std::span<const double> weights, bool add, std::span<double> y);
void row_dots_ref(std::span<const double> a, std::span<const double> b, int64_t width, std::span<const int32_t> rows,
                  std::span<double> dots);
void scale_rows_ref(std::span<const double> factors, int64_t width, std::span<const int32_t> rows, std::span<double> x);
void sigmoid_ref(std::span<double> x);
void sigmoid_backward_ref(std::span<const double> dy, std::span<const double> y, std::span<double> dx);

}  // namespace tern
