#pragma once
// The units behind model/unit.h, one file each. u: the unit's spec, w: its weights, g: its gradients.

#include "kernels/cpu/thread_scratch.h"
#include "model/thread_memory.h"
#include "model/unit.h"

namespace tern {

Tensor embed_forward(const EmbedSpec& u, const EmbedWeights& w, const Rows&, DType, EmbedSaved* saved, const Compute&);
void embed_backward_weight(const EmbedSpec& u, const EmbedWeights& w, const Rows&, const Tensor& dy_TD,
                           const EmbedSaved& saved, EmbedWeights& g, const Compute&);

// A branch is f in y = join(x, f(x)), with f's own norm. `out` is overwritten; df is the
// gradient of f's result; dx is overwritten with the branch's part. left: the memory class of
// what backward_input leaves for backward_weight; it is workspace if no weight is trained.
void attention_forward_branch(const AttentionSpec& u, const ModelSpec&, const AttentionWeights& w, const Rows&,
                              const Tensor& x_TD, const Tensor& out_TD, AttentionSaved* saved, KvView* kv, int layer,
                              const Compute&);
void attention_backward_branch(const AttentionSpec& u, const ModelSpec&, const AttentionWeights& w, const Rows&,
                               const Tensor& df_TD, AttentionSaved& saved, const Tensor& dx_TD, MemoryClass left,
                               const Compute&);
void attention_weight_branch(const AttentionSpec& u, const AttentionWeights& w, const Tensor& df_TD,
                             const AttentionSaved& saved, AttentionWeights& g, const Compute&);

/// Attention's part of thread_memory.
ThreadBytes attention_thread_bytes(const AttentionSpec&, const ThreadWork&);

// Latent attention (model/latent.cpp): computes the rows of queries, keys and values that attention reads; backward, the gradients of that.
void latent_forward(const AttentionSpec& u, const LatentWeights& w, Tensor normed_TD, const Tensor& qkv_TC,
                    LatentSaved* saved, const Compute&);
LatentSaved allocate_latent(const AttentionSpec& u, int64_t rows, DType, const Compute&);
void allocate_latent_gradients(const AttentionSpec& u, LatentSaved& saved, MemoryClass left, const Compute&);
void latent_backward(const AttentionSpec& u, const LatentWeights& w, const Tensor& dqkv_TC, LatentSaved& saved,
                     const Tensor& dn_TD, const Compute&);
void latent_weight(const AttentionSpec& u, const LatentWeights& w, const Tensor& dqkv_TC, const LatentSaved& saved,
                   const NormWeights& norm, const Tensor& x_TD, LatentWeights& g, const Compute&);
Tensor latent_values(const AttentionSpec& u, const Tensor& context_TE, const Compute&);
/// df: this rank's rows. Returns all rows (all_rows), which `out` multiplied.
Tensor latent_dcontext(const AttentionSpec& u, const Linear& out, const Tensor& df_TD, const Tensor& dcontext_TE,
                       const Compute&);

// rows: of all ranks of a tensor group.
void mlp_forward_branch(const MlpSpec& u, const MlpWeights& w, int64_t rows, const Tensor& x_TD, const Tensor& out_TD,
                        MlpSaved* saved, const Compute&);
void mlp_backward_branch(const MlpSpec& u, const MlpWeights& w, const Tensor& df_TD, MlpSaved& saved,
                         const Tensor& dx_TD, MemoryClass left, const Compute&);
void mlp_weight_branch(const MlpSpec& u, const MlpWeights& w, const Tensor& df_TD, const MlpSaved& saved, MlpWeights& g,
                       const Compute&);

// Whole units: a branch, or two branches beside each other, joined to the residual stream.
Tensor attention_unit_forward(const AttentionSpec& u, const ModelSpec&, const AttentionWeights& w, const Rows&,
                              const Tensor& x_TD, AttentionSaved* saved, KvView* kv, int layer, const Compute&);
Tensor attention_unit_backward_input(const AttentionSpec& u, const ModelSpec&, const AttentionWeights& w, const Rows&,
                                     const Tensor& dy_TD, AttentionSaved& saved, MemoryClass left, const Compute&);
void attention_unit_backward_weight(const AttentionSpec& u, const AttentionWeights& w, const Tensor& dy_TD,
                                    const AttentionSaved& saved, AttentionWeights& g, const Compute&);
Tensor mlp_forward(const MlpSpec& u, const MlpWeights& w, int64_t rows, const Tensor& x_TD, MlpSaved* saved,
                   const Compute&);
Tensor mlp_backward_input(const MlpSpec& u, const MlpWeights& w, const Tensor& dy_TD, MlpSaved& saved, MemoryClass left,
                          const Compute&);
void mlp_backward_weight(const MlpSpec& u, const MlpWeights& w, const Tensor& dy_TD, const MlpSaved& saved,
                         MlpWeights& g, const Compute&);
Tensor moe_forward(const MoeSpec& u, const MoeWeights& w, const Tensor& x_TD, MoeSaved* saved, const Compute&);
Tensor moe_backward_input(const MoeSpec& u, const MoeWeights& w, const Tensor& dy_TD, MoeSaved& saved, MemoryClass left,
                          const Compute&);
void moe_backward_weight(const MoeSpec& u, const MoeWeights& w, const Tensor& dy_TD, const MoeSaved& saved,
                         MoeWeights& g, const Compute&);
Tensor parallel_forward(const ParallelSpec& u, const ModelSpec&, const ParallelWeights& w, const Rows&,
                        const Tensor& x_TD, ParallelSaved* saved, KvView* kv, int layer, const Compute&);
Tensor parallel_backward_input(const ParallelSpec& u, const ModelSpec&, const ParallelWeights& w, const Rows&,
                               const Tensor& dy_TD, ParallelSaved& saved, MemoryClass left, const Compute&);
void parallel_backward_weight(const ParallelSpec& u, const ParallelWeights& w, const Tensor& dy_TD,
                              const ParallelSaved& saved, ParallelWeights& g, const Compute&);

Tensor head_backward_input(const HeadSpec& u, const HeadWeights& w, const HeadSaved& saved, const Compute&);
void head_backward_weight(const HeadSpec& u, const HeadSaved& saved, HeadWeights& g);

/// The rows of the tile whose product needs most scratch, a whole tile or the last one, if T rows are cut into tiles.
int64_t widest_tile(const Linear& projection, int64_t T, DType dtype, Multiply multiply);

/// norm(x) as workspace, or x itself where there is no norm.
Tensor normed_rows(const NormSpec&, const NormWeights&, const Tensor& x_TD, const Tensor& mean_T, const Tensor& rstd_T,
                   const Compute&);
/// A norm's statistics of T rows, to be kept: rstd and, for a layer norm, the mean. Both empty without a norm.
struct NormStatistics {
  Tensor mean_T, rstd_T;
};
NormStatistics allocate_statistics(const NormSpec&, int64_t rows, DType, const Compute&);

}  // namespace tern
