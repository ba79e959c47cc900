#pragma once
// The weights of a model, as data: one entry for each of ModelSpec::units.
// D width, F hidden, H heads, K kv heads, d head_dim, V vocab. Linear weights are (out, in) row-major.

#include <variant>
#include <vector>

#include "base/weight_type.h"
#include "model/linear_weight.h"
#include "spec/model_spec.h"
#include "store/row_table.h"
#include "tensor/tensor.h"

namespace tern {

struct NormWeights {
  Tensor weight, bias;
};  // bias only for layer norm
/// A table that stays in its file, its rows as `type` codes them.
struct FileTable {
  RowTable rows;  // its `files` are null if there is no such table
  WeightType type{};
};
struct EmbedWeights {
  Tensor tokens, positions, token_types;  // (V, D); (positions, D) and (types, D) or empty
  NormWeights norm;
  CodedWeight coded_tokens;  // one piece that replaces the rows of `tokens`, which then is (0, D); or no piece
  FileTable tokens_in_file;  // another replacement of `tokens`: rows are read from the file when needed
};
/// Latent attention's weights; query_down and query_norm are empty unless queries have a rank.
struct LatentWeights {
  Linear query_down, query_up, kv_down, kv_up;
  NormWeights query_norm, kv_norm;
};
struct AttentionWeights {
  NormWeights norm, query_norm, key_norm, join_norm;  // empty where the spec has none
  Linear qkv, out;
  LatentWeights latent;  // instead of qkv
  Tensor sinks;          // (H), or empty
};                       // qkv ((H+2K)·d, D): q rows, k rows, v rows
struct MlpWeights {
  NormWeights norm, join_norm;
  Linear up, down;
};  // up (2F or F, D): gate rows first; down (D, F)
struct MoeWeights {
  NormWeights norm;
  Linear router;                               // (experts, D); it, up and down have a bias if the spec says so
  Tensor choice_bias;                          // (experts), not trained; f32, or f64 of an f64 model
  std::vector<Linear> up, down;                // per expert, shaped as in MlpWeights
  Linear shared_up, shared_down, shared_gate;  // where the spec has them; gate (1, D)
};
struct HeadWeights {
  NormWeights norm;
  Linear projection;
};  // (V, D); tied: the weight shares the storage of the embedding's tokens, its gradient does not
/// Attention and MLP beside each other. Where they share a norm, both hold the same tensors.
struct ParallelWeights {
  AttentionWeights attention;
  MlpWeights mlp;
};

/// A unit's weights, by its kind. A bridge has none (monostate): `tern plan` places bridges, but no pass runs them.
using UnitWeights =
    std::variant<std::monostate, EmbedWeights, AttentionWeights, MlpWeights, HeadWeights, ParallelWeights, MoeWeights>;
/// Parallel to ModelSpec::units: units[i] are the weights of unit i.
struct ModelWeights {
  std::vector<UnitWeights> units;
};
EmbedWeights& embed_of(ModelWeights&);
const EmbedWeights& embed_of(const ModelWeights&);
HeadWeights& head_of(ModelWeights&);
const HeadWeights& head_of(const ModelWeights&);

}  // namespace tern
