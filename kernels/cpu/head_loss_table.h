#pragma once
// The fused head of one instruction set: what one thread does between two barriers. head_loss.cpp deals parts of the
// vocabulary to threads.

#include <cstdint>

#include "base/dtype.h"
#include "kernels/cpu/tables.h"

namespace tern {

constexpr int64_t kHeadBlock = 256;  // of the vocabulary: what the second pass holds in L2 at a time

struct HeadLossTask {
  int64_t rows, vocab, width;  // rows padded to 32: padded_rows; width: padded_width
  int64_t padded_rows, padded_width;
  const bf16 *x, *w;
  const int32_t* targets;
  float scale;
  float *losses, *dw;
  bf16* dx;
  // Shared by all threads.
  bf16* x_columns;  // panels of 32 rows of x, as a right factor over width: padded_rows × padded_width
  bf16* x_rows;     // panels of 32 columns of x, as a right factor over rows: padded_width × padded_rows
  bf16* kept;       // e: strips of 16 of the vocabulary × padded_rows, as a left factor
  float* tops;      // of each 32 of the vocabulary: padded_rows
  float* lse;       // padded_rows, behind it the factors of a block
};
/// One thread's own.
struct HeadLossThread {
  float *top, *sum;   // padded_rows each
  float* dx_columns;  // dxᵀ in blocks of 32 × 32: Σ over this thread's part
  bf16* strip;        // 32 rows of w as a left factor
  bf16* w_columns;    // a block of wᵀ as a left factor
  bf16* dz_left;      // a block of dz as a left factor over rows of x
  bf16* dz_rows;      // the same as a right factor over the vocabulary
  float* factor;      // padded_rows
};

struct HeadLossTable {
  bool present;
  void (*pack)(const HeadLossTask&, int64_t thread, int64_t threads);
  /// First pass over [first, last) of the vocabulary, both multiples of 32 or the end.
  void (*forward)(const HeadLossTask&, const HeadLossThread&, int64_t first, int64_t last);
  /// lse and losses of all rows from the sums of `threads` threads.
  void (*combine)(const HeadLossTask&, const HeadLossThread*, int64_t threads);
  /// Second pass.
  void (*backward)(const HeadLossTask&, const HeadLossThread&, int64_t first, int64_t last);
  /// dx of every `threads`-th 32 rows.
  void (*finish)(const HeadLossTask&, const HeadLossThread*, int64_t thread, int64_t threads);
};
TERN_DECLARE_TABLES(HeadLossTable, head_loss_table)

}  // namespace tern
