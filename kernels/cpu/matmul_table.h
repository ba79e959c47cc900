#pragma once
// What one instruction set offers for kernels/cpu/matmul.h. Raw pointers alone: kernels/README.md says why.

#include <cstdint>

#include "base/dtype.h"
#include "kernels/cpu/coded_rows.h"
#include "kernels/cpu/tables.h"

namespace tern {

/// From how many rows of bf16 on they are widened before a product.
constexpr int64_t kWidenFrom = 8;
/// From one widened row of k numbers to the next: whole vectors of any set, and a cache line more, or rows of 4 KiB would lie in the same sets.
constexpr int64_t wide_stride(int64_t k) { return (k + 15) / 16 * 16 + 16; }
/// Rows of k numbers that are widened at a time: 4 MiB of them, but 192 to 384, as coded weights are decoded for each stretch of rows. Of 384 rows
/// on AVX2, k 4,096 and 11,008: stretches of 192 are 3 to 8 % faster than widening in each task, stretches of 96 up to 9 % slower (Q4_K, Q4_0).
constexpr int64_t wide_rows(int64_t k) {
  const int64_t rows = (1 << 20) / wide_stride(k);
  return rows < 192 ? 192 : rows > 384 ? 384 : rows;
}

struct MatmulTable {
  int64_t panel;     // rows of w in one packed panel
  bool widens_bf16;  // whether products of bf16 are multiply-adds in f32
  void (*pack_f32)(const float* w, int64_t n, int64_t k, float* packed);
  void (*pack_bf16)(const bf16* w, int64_t n, int64_t k, bf16* packed);
  /// y_stride: elements from a row of y to the next. wide_room: null, or if widens_bf16 and x is bf16: room for m · wide_stride(k)
  /// numbers, to which x is then widened once for all tasks.
  void (*exact_f32)(const float* x, const float* packed, const float* bias, int64_t m, int64_t n, int64_t k, bool add,
                    float* y, int64_t y_stride, float* wide_room);
  void (*exact_bf16)(const bf16* x, const bf16* packed, const bf16* bias, int64_t m, int64_t n, int64_t k, bool add,
                     bf16* y, int64_t y_stride, float* wide_room);
  void (*exact_bf16_to_f32)(const bf16* x, const bf16* packed, const bf16* bias, int64_t m, int64_t n, int64_t k,
                            bool add, float* y, int64_t y_stride, float* wide_room);
  /// exact_* with the rows of w (n, k) coded, in pieces, one below the other.
  void (*coded_f32)(const float* x, const CodedRows* pieces, const float* bias, int64_t m, int64_t n, int64_t k,
                    bool add, float* y, int64_t y_stride, float* wide_room);
  void (*coded_bf16)(const bf16* x, const CodedRows* pieces, const bf16* bias, int64_t m, int64_t n, int64_t k,
                     bool add, bf16* y, int64_t y_stride, float* wide_room);
  void (*coded_bf16_to_f32)(const bf16* x, const CodedRows* pieces, const bf16* bias, int64_t m, int64_t n, int64_t k,
                            bool add, float* y, int64_t y_stride, float* wide_room);
  /// nn_* with the rows of w coded.
  void (*coded_nn_f32)(const float* dy, const CodedRows* pieces, int64_t m, int64_t n, int64_t k, bool add, float* dx);
  void (*coded_nn_bf16)(const bf16* dy, const CodedRows* pieces, int64_t m, int64_t n, int64_t k, bool add, bf16* dx);
  /// Numbers [0, k) of one row.
  void (*coded_row_f32)(const CodedRows& piece, int64_t row, int64_t k, float* out);
  void (*coded_row_bf16)(const CodedRows& piece, int64_t row, int64_t k, bf16* out);
  /// exact_* with w (n, k) not packed: the same bits.
  void (*nt_f32)(const float* x, const float* w, const float* bias, int64_t m, int64_t n, int64_t k, bool add,
                 float* y);
  void (*nt_bf16)(const bf16* x, const bf16* w, const bf16* bias, int64_t m, int64_t n, int64_t k, bool add, bf16* y);
  void (*nt_bf16_to_f32)(const bf16* x, const bf16* w, const bf16* bias, int64_t m, int64_t n, int64_t k, bool add,
                         float* y);
  void (*nn_f32)(const float* dy, const float* w, int64_t m, int64_t n, int64_t k, bool add, float* dx);
  void (*nn_bf16)(const bf16* dy, const bf16* w, int64_t m, int64_t n, int64_t k, bool add, bf16* dx);
  void (*tn_f32)(const float* dy, const float* x, int64_t m, int64_t n, int64_t k, float* dw);
  void (*tn_bf16)(const bf16* dy, const bf16* x, int64_t m, int64_t n, int64_t k, float* dw);
  /// The products of kernels/cpu/symmetric_matmul.h, not mirrored yet: elements above the diagonal may be written or not. gram_lower adds to a.
  void (*square_lower)(const float* a, int64_t n, float* y);
  void (*gram_lower)(const float* x, int64_t m, int64_t k, float* a);
};
TERN_DECLARE_TABLES(MatmulTable, matmul_table)

}  // namespace tern
