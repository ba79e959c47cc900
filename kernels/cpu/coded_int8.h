#pragma once
// Products with coded weights in integers. Numbers of x are rounded to int8 in groups of 32 of a row, by this row
// alone. The int8 numbers are multiplied with the weights' codes exactly, then scaled. The rounding of x adds an error
// to multiply_coded's result; a caller must say so.
//
// Order   x: with amax the largest magnitude of 32 neighbours, s = amax/127 and code = round(x·(127/amax)), half to
//         even; amax below 2^-100 counts as zero; where a number is infinite or NaN, s is NaN. Products: eight chains in
//         f32; of each 256 neighbours chain g takes the g-th 32: it adds (scale_w·s)·(the exact sum of their products of
//         codes); if the type's weights are scale_w·code + least_w, it then adds least_w·(s·(the exact sum of x's codes)).
//         For types with a scale for each 16 numbers it adds the products of the first 16, then those of the second 16; then, if
//         the type has least_w, that term for the first 16, then for the second. What a chain adds is a fused multiply-add: it
//         is rounded with the sum, once. The factors in brackets are rounded before. At the end chains 4 apart are added, then 2, 1 apart, then the bias. The same bits
//         under every instruction set, for any m, pieces, threads.
// Twin    kernels/ref/coded_int8_ref.h, compared by equality.

#include <cstdint>
#include <span>

#include "base/dtype.h"
#include "kernels/cpu/coded_int8_table.h"
#include "kernels/cpu/thread_scratch.h"

namespace tern {

constexpr int64_t kInt8Columns = 131072;  // k at most: a thread keeps a row of x rounded
/// multiply_coded (kernels/cpu/coded_matmul.h) in integers; every piece's type has_code_groups, k is at most kInt8Columns.
template <class T, class Out>
void multiply_coded_int8(std::span<const T> x, std::span<const CodedRows> w, std::span<const T> bias, int64_t m,
                         int64_t n, int64_t k, bool add, std::span<Out> y);
/// The same by one set's tiles, nothing checked: m, n, k ≥ 1.
template <class T, class Out>
void multiply_int8_on_tiles(const Int8Tiles&, const T* x, std::span<const CodedRows> w, const T* bias, int64_t m,
                            int64_t n, int64_t k, bool add, Out* y);
/// What threads keep for products of up to m rows (thread_scratch.h). Never less for more rows.
ThreadBytes coded_int8_thread_bytes(int64_t m, int64_t k);

}  // namespace tern
