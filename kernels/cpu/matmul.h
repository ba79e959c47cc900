#pragma once
// Our own matrix products. A result element is one f32 sum; the order of its summands depends only on their number and on the instruction set.
// So in y and in dx a row's bits depend neither on other rows, nor on their number, nor on threads: row-invariant. T is float or bf16: inputs in T, sums
// in f32, results rounded to the output type once.
// Twin: kernels/ref/matmul_ref.h.

#include <cstdint>
#include <span>

#include "base/dtype.h"
#include "kernels/cpu/thread_scratch.h"
#include "kernels/cpu/weight_rows.h"

namespace tern {

/// The number of bytes of a packed weight (n, k): groups of rows, each stored column by column (bf16: two columns by two columns). The last
/// group is filled up with rows of zeros. If reads_plain_weights(dtype), the packed weight is w itself, row-major.
int64_t packed_bytes(DType, int64_t n, int64_t k);
/// Packs w (n, k) row-major into `packed` (packed_bytes). The layout depends on the active instruction set
/// (kernels/dispatch.h).
template <class T>
void pack_weight(std::span<const T> w, int64_t n, int64_t k, std::span<std::byte> packed);
/// The same with the rows of w in pieces, one below the other (n rows together).
template <class T>
void pack_weight(std::span<const WeightRows<T>> w, int64_t n, int64_t k, std::span<std::byte> packed);
/// Row `row` of the packed weight, as it was before packing: (k).
template <class T>
void unpack_row(std::span<const std::byte> packed, int64_t n, int64_t k, int64_t row, std::span<T> out);

/// y (m, n) = x (m, k) · wᵀ + bias. bias (n) or empty; Out is T or float. x rows contiguous.
/// If `add`, y += the sum (rounded once: y_old converted, added to the f32 sum, rounded). y_stride: elements from a row of y to the next,
/// where y is some columns of a wider matrix (columns_extent); 0: n.
template <class T, class Out>
void multiply_exact(std::span<const T> x, std::span<const std::byte> packed, std::span<const T> bias, int64_t m,
                    int64_t n, int64_t k, bool add, std::span<Out> y, int64_t y_stride = 0);

/// Whether multiply_plain serves weights of this dtype on the active instruction set. Then the packed
/// layout is w itself, so packing gains nothing.
bool reads_plain_weights(DType);
/// multiply_exact with w not packed: its rows in pieces, one below the other (n rows together). The same bits.
template <class T, class Out>
void multiply_plain(std::span<const T> x, std::span<const WeightRows<T>> w, std::span<const T> bias, int64_t m,
                    int64_t n, int64_t k, bool add, std::span<Out> y, int64_t y_stride = 0);

/// Products with matrices that are not packed, for training where oneDNN is not used, and for --multiply exact.
/// Order: fixed over the summed dimension.
/// multiply_exact with w (n, k) not packed: the same bits, but for the sign of a sum of bf16 that is zero where k is odd.
template <class T, class Out>
void multiply_nt(std::span<const T> x, std::span<const T> w, std::span<const T> bias, int64_t m, int64_t n, int64_t k,
                 bool add, std::span<Out> y);
/// dx (m, k) = dy (m, n) · w (n, k);  if `add`, dx +=.
template <class T>
void multiply_nn(std::span<const T> dy, std::span<const T> w, int64_t m, int64_t n, int64_t k, bool add,
                 std::span<T> dx);
/// dw (n, k) += dyᵀ · x, with dy (m, n), x (m, k); dw in f32. Rows m ascending.
template <class T>
void multiply_tn(std::span<const T> dy, std::span<const T> x, int64_t m, int64_t n, int64_t k, std::span<float> dw);

/// Scratch of the calling thread for m rows of bf16 that products widen to f32; 0 where they are multiplied as they are.
int64_t widened_bytes(int64_t m, int64_t k);
/// What threads keep (thread_scratch.h) for products of up to m rows. forward: multiply_exact, multiply_plain, multiply_coded;
/// nt, nn, tn: multiply_nt, multiply_nn, multiply_tn. More rows never give fewer bytes.
ThreadBytes forward_thread_bytes(DType, int64_t m, int64_t n, int64_t k);
ThreadBytes nt_thread_bytes(DType, int64_t m, int64_t n, int64_t k);
ThreadBytes nn_thread_bytes(DType, int64_t m, int64_t n, int64_t k);
ThreadBytes tn_thread_bytes(DType, int64_t m, int64_t n, int64_t k);

}  // namespace tern
