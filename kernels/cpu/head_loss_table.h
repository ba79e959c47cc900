#pragma once
// The fused head of one instruction set: what one thread does between two barriers. head_loss.cpp deals parts of the
// vocabulary to threads.

#include <cstdint>

#include "base/dtype.h"
#include "kernels/cpu/tables.h"

namespace tern {

constexpr int64_t kHeadBlock = 256;  // rows of the vocabulary that the second pass holds in L2 at a time

struct HeadLossTask {
  int64_t rows, vocab, width;  // padded_rows, padded_width: rows and width, rounded up to 32
  int64_t padded_rows, padded_width;
  const bf16 *x, *w;
  const int32_t* targets;
  float scale;
  float *losses, *dw;
  bf16* dx;
  // Shared by all threads.
  bf16* x_columns;  // panels of 32 rows of x, as a right factor over width: padded_rows × padded_width
  bf16* x_rows;     // panels of 32 columns of x, as a right factor over rows: padded_width × padded_rows
  bf16* kept;       // e as a left factor: strips of 16 of the vocabulary × padded_rows
  float* tops;      // padded_rows for each 32 of the vocabulary: the `top` that their e was made with
  float* lse;       // padded_rows
};
/// The buffers of one thread alone.
struct HeadLossThread {
  float *top, *sum;   // padded_rows each
  float* dx_columns;  // dxᵀ in blocks of 32 × 32, summed over this thread's part of the vocabulary
  bf16* strip;        // 32 rows of w as a left factor
  bf16* w_columns;    // a block of wᵀ as a left factor
  bf16* dz_left;      // a block of dz as a left factor over rows of x
  bf16* dz_rows;      // the same as a right factor over the vocabulary
  float* factor;      // padded_rows: what turns e of 32 of the vocabulary into dz
};

struct HeadLossTable {
  bool present;
  void (*pack)(const HeadLossTask&, int64_t thread, int64_t threads);
  /// First pass over [first, last) of the vocabulary, both multiples of 32 or the end.
  void (*forward)(const HeadLossTask&, const HeadLossThread&, int64_t first, int64_t last);
  /// lse of all rows from the sums of `threads` threads, and losses = −z_target, 0 where the target is not in this vocabulary.
  void (*combine)(const HeadLossTask&, const HeadLossThread*, int64_t threads);
  /// Second pass.
  void (*backward)(const HeadLossTask&, const HeadLossThread&, int64_t first, int64_t last);
  /// dx of every `threads`-th block of 32 rows, from block `thread` on.
  void (*finish)(const HeadLossTask&, const HeadLossThread*, int64_t thread, int64_t threads);
};
TERN_DECLARE_TABLES(HeadLossTable, head_loss_table)

}  // namespace tern
