#pragma once
// What the forward of each unit keeps for its backward passes, and what the first backward pass leaves for the second. T tokens of a
// ragged batch; D width; C columns of queries, keys and values, E of attention's result, H heads; G columns of up, F hidden width.

#include <variant>

#include "spec/model_spec.h"
#include "tensor/tensor.h"

namespace tern {

// Forward keeps x, the unit's own input (a shared handle, not a copy), and a mean only for a layer norm. backward_input
// leaves the members that begin with `d`, and an MLP's hidden rows, for backward_weight; the head's dnormed_TD comes from
// head_forward_loss. The normed rows and the activation are made again instead of kept.

/// What is kept for a norm that stands between a branch and the residual stream:
/// the rows that it normed, and their statistics. Empty without such a norm.
struct JoinSaved {
  Tensor x_TD, mean_T, rstd_T;
};
/// Empty unless the rows are normed.
struct EmbedSaved {
  Tensor x_TD, mean_T, rstd_T;
};
struct LatentSaved {
  Tensor query_TR, query_rstd, kv_TR, kv_rstd;  // kept: narrow rows (R wide) before their norms; kv_TR: before rope too
  Tensor dquery_TR, dkv_TR, dquery_norm, dkv_norm;  // left for backward_weight: gradients of rows and of norm weights
};
struct AttentionSaved {
  Tensor x_TD, mean_T, rstd_T, qkv_TC, context_TE, lse_TH;
  Tensor query_rstd, key_rstd;  // of the norms of queries and keys; qkv then holds their inputs, before rope
  JoinSaved join;
  LatentSaved latent;
  Tensor dqkv_TC, dnormed_TD;
  Tensor dquery_norm, dkey_norm;  // the gradients of those norms' weights
  Tensor dsinks;                  // (heads); in a context group zero for the heads of other ranks
};
struct MlpSaved {
  Tensor x_TD, mean_T, rstd_T, up_TG;
  JoinSaved join;
  Tensor dup_TG, hidden_TF, dnormed_TD;  // dup takes the memory of up
};
struct ParallelSaved {
  AttentionSaved attention;
  MlpSaved mlp;
};
/// What a router decided for T tokens: E experts, K for each token; R = T·K rows, sorted by expert (kernels/cpu/experts.h).
struct Routing {
  Tensor scores_TE, weights_TK, chosen_TK, rows_TK, tokens_R, begin_E;
};
struct MoeSaved {
  Tensor x_TD, mean_T, rstd_T;
  Routing routing;
  Tensor up_RG, shared_up_TG, shared_gate_T;  // the gate after its sigmoid
  Tensor dup_RG, dshared_up_TG, dshared_gate_T, dlogits_TE, dnormed_TD;
  // In an expert group (model/expert_ranks.h): how many rows came for this rank's experts; those rows; and w·df, where
  // df is the gradient of a row's result and w the row's router weight. up_RG and dup_RG then belong to these rows.
  Tensor arrivals_E, rows_RD, drows_RD;
};
struct HeadSaved {
  Tensor x_TD, mean_T, rstd_T, dnormed_TD;
};
using UnitSaved = std::variant<EmbedSaved, AttentionSaved, MlpSaved, HeadSaved, ParallelSaved, MoeSaved>;
/// The value of UnitSaved before anything ran: empty tensors of the unit's kind.
UnitSaved nothing_saved(const Unit&);
/// Drops what backward_input left for backward_weight.
void drop_left(UnitSaved&);

}  // namespace tern
