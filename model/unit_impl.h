#pragma once
// The units behind model/unit.h, one file each. u: the unit's spec, w: its weights, g: its gradients.

#include "model/unit.h"

namespace tern {

Tensor embed_forward(const EmbedSpec& u, const EmbedWeights& w, const Rows&, DType, const Compute&);
void embed_backward_weight(const EmbedSpec& u, const Rows&, const Tensor& dy_TD, EmbedWeights& g);

Tensor attention_unit_forward(const AttentionSpec& u, const RopeSpec&, const AttentionWeights& w, const Rows&,
                              const Tensor& x_TD, AttentionSaved* saved, KvView* kv, int layer, const Compute&);
Tensor attention_unit_backward_input(const AttentionSpec& u, const RopeSpec&, const AttentionWeights& w, const Rows&,
                                     const Tensor& dy_TD, AttentionSaved& saved, const Compute&);
void attention_unit_backward_weight(const AttentionSpec& u, const AttentionWeights& w, const Tensor& dy_TD,
                                    const AttentionSaved& saved, AttentionWeights& g, const Compute&);

Tensor mlp_forward(const MlpSpec& u, const MlpWeights& w, const Tensor& x_TD, MlpSaved* saved, const Compute&);
Tensor mlp_backward_input(const MlpSpec& u, const MlpWeights& w, const Tensor& dy_TD, MlpSaved& saved, const Compute&);
void mlp_backward_weight(const MlpSpec& u, const MlpWeights& w, const Tensor& dy_TD, const MlpSaved& saved,
                         MlpWeights& g, const Compute&);

Tensor head_backward_input(const HeadSpec& u, const HeadWeights& w, const HeadSaved& saved, const Compute&);
void head_backward_weight(const HeadSpec& u, const HeadSaved& saved, HeadWeights& g);

/// Statistics of T rows, where they are kept: rstd, and the mean of a layer norm.
struct NormStatistics {
  Tensor mean_T, rstd_T;
};
NormStatistics allocate_statistics(const NormSpec&, int64_t rows, DType, const Compute&);

}  // namespace tern
