#pragma once
// Products with coded weights in integers. Each row of x is rounded to int8 in groups of 32 numbers, independently of all other rows.
// The int8 numbers are multiplied with the weights' codes exactly; the sums are then scaled. The rounding of x adds an error
// that multiply_coded does not have; a caller must say so to its user.
//
// Order   Rounding of x: with amax the largest magnitude of a group, s = amax/127 and code = round(x·(127/amax)), half to even. An amax below
//         2^-100 counts as zero; if a number is infinite or NaN, s is NaN.
//         Products: eight chains in f32; of each 256 numbers chain g takes the g-th 32. It adds (scale_w·s)·(the exact sum of the products
//         of codes). Then, if the type's weights are scale_w·code + least_w, it adds least_w·(s·(the exact sum of x's codes)).
//         For a type with a scale for each 16 numbers it adds the products of the first 16, then of the second 16; then, if the type has
//         least_w, that term of the first 16, then of the second 16. Each addition is a fused multiply-add, rounded once; the factors in
//         brackets are rounded before. At the end chains 4 apart are added, then 2 apart, then 1 apart, then the bias.
//         The same bits under every instruction set, for any m, pieces and threads.
// Twin    kernels/ref/coded_int8_ref.h, compared by equality.

#include <cstdint>
#include <span>

#include "base/dtype.h"
#include "kernels/cpu/coded_int8_table.h"
#include "kernels/cpu/thread_scratch.h"

namespace tern {

constexpr int64_t kInt8Columns = 131072;  // the largest k: a thread keeps at least one rounded row of x
/// multiply_coded (kernels/cpu/coded_matmul.h; y_stride as there) in integers; every piece's type has_code_groups, k is at most kInt8Columns.
template <class T, class Out>
void multiply_coded_int8(std::span<const T> x, std::span<const CodedRows> w, std::span<const T> bias, int64_t m,
                         int64_t n, int64_t k, bool add, std::span<Out> y, int64_t y_stride = 0);
/// The same on the tile unit of one set. Nothing is checked; m, n, k ≥ 1.
template <class T, class Out>
void multiply_int8_on_tiles(const Int8Tiles&, const T* x, std::span<const CodedRows> w, const T* bias, int64_t m,
                            int64_t n, int64_t k, bool add, Out* y, int64_t y_stride);
/// What threads keep (thread_scratch.h) for products of up to m rows. More rows never give fewer bytes.
ThreadBytes coded_int8_thread_bytes(int64_t m, int64_t k);

}  // namespace tern
