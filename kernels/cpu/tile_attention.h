#pragma once
// Causal grouped-query attention for training on the tile unit or AVX512-BF16: plain rows, bf16. Scores, softmax and sums in f32.
// Softmax weights and their gradients are rounded to bf16 before tile products. Shapes and formulas:
// kernels/cpu/attention.h, whose kernels inference uses instead. Twin: kernels/ref/attention_ref.h.

#include <cstdint>
#include <span>

#include "base/dtype.h"
#include "kernels/cpu/attention.h"

namespace tern {

/// Whether the active instruction set has these kernels.
bool has_tile_attention();
/// Scratch that each thread takes and keeps for these sequences, with the present number of threads.
int64_t tile_attention_scratch_bytes(const AttentionShape&, std::span<const int64_t> starts, bool backward);
/// The same for sequences of up to `longest` rows, whatever their lengths; 0 where the active set has none.
int64_t tile_attention_scratch_bytes(const AttentionShape&, int64_t longest, bool backward);
/// Number of tasks that threads take: one per key/value head of a sequence, or several where one each would leave threads idle.
int64_t tile_attention_tasks(const AttentionShape&, std::span<const int64_t> starts, bool backward);
/// Sequence s is rows [starts[s], starts[s + 1]). lse (rows, heads), or empty.
/// Order   a query's sums are over its keys, a key's over its queries head by head, ascending: nothing depends on
///         neighbours or on the number of threads.
/// Errors  TERN_CHECK: shape, sizes, a set without it.
void tile_attention_forward(const AttentionShape&, std::span<const int64_t> starts, const bf16* q, const bf16* k,
                            const bf16* v, bf16* out, std::span<float> lse);
/// dq, dk, dv are overwritten.
void tile_attention_backward(const AttentionShape&, std::span<const int64_t> starts, const bf16* q, const bf16* k,
                             const bf16* v, const bf16* out, const bf16* dout, std::span<const float> lse, bf16* dq,
                             bf16* dk, bf16* dv);

}  // namespace tern
