#pragma once
// The head of a language model in training, for sets with products of bf16: logits, loss and both gradients of the
// projection, tile by tile in the cache, so that logits in f32 never exist. Twin: kernels/ref/head_loss_ref.h.
//
//   z = x·wᵀ,  loss_r = log Σ_v exp z_rv - z_r,target,  dz = scale·(softmax(z) - onehot(target)),
//   dx = dz·w,  dw += dzᵀ·x
//
// Two passes over the vocabulary. The first makes tiles of z. It keeps e = exp(z - top) in bf16, where `top` is any
// number that keeps e finite, and sums e in f32. The second makes dz = e·exp(top - lse)·scale, minus scale at the
// target, and both products of dz. So the loss is that of f32 logits. dz is off by two roundings to bf16; dz of logits
// kept in f32 would be off by one.

#include <cstdint>
#include <functional>
#include <limits>
#include <span>

#include "base/dtype.h"

namespace tern {

/// Most rows of a call: the kept e takes 2·vocab bytes for each.
constexpr int64_t kHeadLossRows = 512;

/// Whether the active instruction set has a fused head.
bool has_head_loss();
/// Scratch for up to `rows` rows with the present number of threads; 0 if the active set has none.
int64_t head_loss_scratch_bytes(int64_t rows, int64_t vocab, int64_t width);
/// A target that lies in another rank's part of the vocabulary.
constexpr int32_t kTargetElsewhere = std::numeric_limits<int32_t>::max();
/// What ranks that share out the vocabulary do between the passes; called on the calling thread. It is given, of each row, lse = log Σ exp z
/// over this rank's part (an empty part: −inf) and −z_target (0: elsewhere, or no loss). It replaces lse by that of all parts, and leaves the losses in minus_target.
using JoinHeadParts = std::function<void(std::span<float> lse, std::span<float> minus_target)>;
/// Shapes  x, dx (rows, width), w, dw (vocab, width), targets, losses (rows); rows <= kHeadLossRows, targets < vocab or
///         kTargetElsewhere; target < 0: no loss. dw is added to, dx overwritten. With `join`, losses are what it leaves in minus_target.
/// Order   fixed for a number of threads: each thread has a part of the vocabulary; dx adds the parts in part order.
/// Errors  TERN_CHECK: sizes, scratch too small, an instruction set without it.
void head_loss(int64_t vocab, int64_t width, std::span<const int32_t> targets, float scale, std::span<const bf16> x,
               std::span<const bf16> w, std::span<float> losses, std::span<bf16> dx, std::span<float> dw,
               std::span<std::byte> scratch, const JoinHeadParts& join = {});

/// The same on the kernels of one set: for its self-test.
struct HeadLossTable;
int64_t head_loss_scratch_bytes(const HeadLossTable&, int64_t rows, int64_t vocab, int64_t width);
void head_loss(const HeadLossTable&, int64_t vocab, int64_t width, std::span<const int32_t> targets, float scale,
               std::span<const bf16> x, std::span<const bf16> w, std::span<float> losses, std::span<bf16> dx,
               std::span<float> dw, std::span<std::byte> scratch, const JoinHeadParts& join = {});

}  // namespace tern
