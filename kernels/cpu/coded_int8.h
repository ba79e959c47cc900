#pragma once
// Products with coded weights in integers. Numbers of x are rounded to int8 in groups of 32 of their row, by the row alone,
// and multiplied with the weights' codes exactly; scales come after. That is another result than multiply_coded's, whose
// rounding error it adds to: who uses it says so.
//
// Order   x: amax the largest magnitude of 32 neighbours, s = amax/127, code = round(x·(127/amax)), half to even; below
//         2^-100 amax counts as zero; where a number is infinite or NaN, s is NaN. Sixteen chains: chain c of 64 neighbours
//         takes 4c to 4c + 3, its step adds scale_w·s times their exact sum of products, then, of types with leasts,
//         least_w·s times the exact sum of x's codes; every product and sum rounded once. Then chains 8 apart are
//         added, 4, 2, 1; then the bias. The same bits under every instruction set, for any m, pieces and threads.
// Twin    kernels/ref/coded_int8_ref.h, compared by equality.

#include <cstdint>
#include <span>

#include "base/dtype.h"
#include "kernels/cpu/coded_rows.h"

namespace tern {

/// multiply_coded (kernels/cpu/coded_matmul.h) in integers; every piece's type has_code_groups.
template <class T, class Out>
void multiply_coded_int8(std::span<const T> x, std::span<const CodedRows> w, std::span<const T> bias, int64_t m,
                         int64_t n, int64_t k, bool add, std::span<Out> y);

}  // namespace tern
