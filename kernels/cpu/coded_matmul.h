#pragma once
// Products with weights as a file codes them: rows are decoded as they are packed, at most 256 columns of some rows at a time,
// so the whole decoded matrix is never in memory. Bits: those of multiply_exact with the decoded rows, rounded to T, whatever
// m, the pieces and the number of threads are (kernels/cpu/matmul.h); both round and add by the same code. Tests compare them
// with decode_blocks, pack_weight and multiply_exact.

#include <cstdint>
#include <span>

#include "base/dtype.h"
#include "kernels/cpu/coded_rows.h"

namespace tern {

/// Whether multiply_coded serves `dtype` on the active instruction set: f32 everywhere, bf16 where products run on
/// vectors. bf16 on tiles (amx_bf16) is not served: there weights are multiplied without packing, so coded ones are decoded when
/// the model is loaded, or (model/coded_base.h) for the time of a product.
bool multiplies_coded(DType);

/// y (m, n) = x (m, k)·wᵀ + bias, or y += that: multiply_exact, with the rows of w coded, in pieces one below the other (n
/// rows together). y_stride: as of multiply_exact. k is a multiple of every piece's block; rows of a piece: a multiple of head_dim, if set.
template <class T, class Out>
void multiply_coded(std::span<const T> x, std::span<const CodedRows> w, std::span<const T> bias, int64_t m, int64_t n,
                    int64_t k, bool add, std::span<Out> y, int64_t y_stride = 0);

/// dx (m, k) = dy (m, n)·w, or dx += that: multiply_nn, with the rows of w coded as above. Bits: those of multiply_nn with the
/// decoded rows, rounded to T.
template <class T>
void multiply_coded_nn(std::span<const T> dy, std::span<const CodedRows> w, int64_t m, int64_t n, int64_t k, bool add,
                       std::span<T> dx);

/// y (ids, k) = the rows `ids` of a table (count, k), decoded. T is float or bf16. Errors  bug: a row that is not there.
template <class T>
void gather_coded_rows(const CodedRows& table, int64_t k, std::span<const int32_t> ids, std::span<T> y);

}  // namespace tern
