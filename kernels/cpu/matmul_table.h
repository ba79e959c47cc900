#pragma once
// What one instruction set offers for kernels/cpu/matmul.h. Raw pointers alone: kernels/README.md says why.

#include <cstdint>

#include "base/dtype.h"
#include "kernels/cpu/coded_rows.h"
#include "kernels/cpu/tables.h"

namespace tern {

struct MatmulTable {
  int64_t panel;  // rows of w in one packed panel
  void (*pack_f32)(const float* w, int64_t n, int64_t k, float* packed);
  void (*pack_bf16)(const bf16* w, int64_t n, int64_t k, bf16* packed);
  void (*exact_f32)(const float* x, const float* packed, const float* bias, int64_t m, int64_t n, int64_t k, bool add,
                    float* y);
  void (*exact_bf16)(const bf16* x, const bf16* packed, const bf16* bias, int64_t m, int64_t n, int64_t k, bool add,
                     bf16* y);
  void (*exact_bf16_to_f32)(const bf16* x, const bf16* packed, const bf16* bias, int64_t m, int64_t n, int64_t k,
                            bool add, float* y);
  /// exact_* with the rows of w (n, k) coded, in pieces, one below the other.
  void (*coded_f32)(const float* x, const CodedRows* pieces, const float* bias, int64_t m, int64_t n, int64_t k,
                    bool add, float* y);
  void (*coded_bf16)(const bf16* x, const CodedRows* pieces, const bf16* bias, int64_t m, int64_t n, int64_t k,
                     bool add, bf16* y);
  void (*coded_bf16_to_f32)(const bf16* x, const CodedRows* pieces, const bf16* bias, int64_t m, int64_t n, int64_t k,
                            bool add, float* y);
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
