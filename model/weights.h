#pragma once
// The weights of a model, as data: their storage, and the one visitor behind load, save, initialise, count and update.
// D width, F hidden, H heads, K kv heads, d head_dim, V vocab. Linear weights are (out, in) row-major.

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "model/linear_weight.h"
#include "spec/model_spec.h"
#include "store/row_table.h"
#include "tensor/arena.h"
#include "tensor/tensor.h"

namespace tern {

struct NormWeights {
  Tensor weight, bias;
};  // bias only for layer norm
/// A table that stays in its file, its rows as `type` codes them.
struct FileTable {
  RowTable rows;  // its files null: there is no such table
  WeightType type{};
};
struct EmbedWeights {
  Tensor tokens, positions, token_types;  // (V, D); (positions, D) and (types, D) or empty
  NormWeights norm;
  CodedWeight coded_tokens;  // one piece, or none: instead of the rows of `tokens`, which then is (0, D)
  FileTable tokens_in_file;  // or this: rows that are read when they are asked for
};
/// Latent attention's weights; query_down and query_norm are empty unless queries have a rank.
struct LatentWeights {
  Linear query_down, query_up, kv_down, kv_up;
  NormWeights query_norm, kv_norm;
};
struct AttentionWeights {
  NormWeights norm, query_norm, key_norm, join_norm;  // empty where the spec has none
  Linear qkv, out;
  LatentWeights latent;  // in the place of qkv
  Tensor sinks;          // (H), or empty
};                       // qkv ((H+2K)·d, D): q rows, k rows, v rows
struct MlpWeights {
  NormWeights norm, join_norm;
  Linear up, down;
};  // up (2F or F, D): gate rows first; down (D, F)
struct MoeWeights {
  NormWeights norm;
  Linear router;                               // (experts, D), with a bias where the spec has one; so experts
  Tensor choice_bias;                          // (experts), not trained; f32, or f64 of an f64 model
  std::vector<Linear> up, down;                // per expert, as an MLP's
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

/// A unit's weights, by its kind. A bridge, which is planned but not run, has none (monostate).
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

/// Where some rows of one of our tensors stand in a Hugging Face file. `transposed`: the file holds (in, out) (GPT-2's
/// Conv1D). Several fragments may name one tensor of the file, each its own rows of it.
struct Fragment {
  std::string name;
  int64_t row_begin, row_end;
  bool transposed;
  int64_t file_row, file_rows;  // the place of the first row in the file's tensor, and the number of that tensor's rows
  int64_t file_step = 1;        // from one row to the next there
  // A tensor of all experts holds `slabs` matrices of file_rows rows, and has a dim for them in front; 0: it is one matrix.
  int64_t slab = 0, slabs = 0;

  /// The first row, and the number of rows, where the tensor's matrices stand one below the other.
  int64_t first_row() const { return slab * file_rows + file_row; }
  int64_t all_rows() const { return slabs > 0 ? slabs * file_rows : file_rows; }
};
struct ParameterInfo {
  std::string name;  // ours: "layers.0.attention.qkv.weight"; keys random numbers and checkpoints
  Shape shape;
  int unit;    // index in ModelSpec::units that owns it
  bool decay;  // matrices and tables decay; biases and norms do not
  bool is_norm_weight;
  double initial;  // of norms and biases: what a new model begins with
  std::vector<Fragment> fragments;
};
/// Calls `visit` once for every parameter of the model itself (adapters left out), frozen or not, in the order of the units,
/// with its tensor in `weights` (which may be empty: then only the info is of use). A tied head's table is visited once, as the
/// embedding's.
/// The order is fixed: updates and norms sum in it. Errors: TERN_CHECK for a linear whose weight is not dense.
void for_each_parameter(const ModelSpec&, ModelWeights& weights,
                        const std::function<void(const ParameterInfo&, Tensor&)>& visit);
/// The same of one unit alone.
void for_each_parameter(const ModelSpec&, int unit, UnitWeights& weights,
                        const std::function<void(const ParameterInfo&, Tensor&)>& visit);
std::vector<ParameterInfo> parameters(const ModelSpec&);
/// What an update changes: the parameters of units that are not frozen, and after each linear the a and b of its branches,
/// which the model's files do not hold. For a model without frozen units and adapters it is for_each_parameter.
void for_each_trained(const ModelSpec&, ModelWeights& weights,
                      const std::function<void(const ParameterInfo&, Tensor&)>& visit);
std::vector<ParameterInfo> trained_parameters(const ModelSpec&);
/// The branches alone.
void for_each_adapter(const ModelSpec&, ModelWeights& weights,
                      const std::function<void(const ParameterInfo&, Tensor&)>& visit);
/// Calls `visit` for every tensor that is no parameter but belongs to the model: read, written, kept in checkpoints,
/// never trained. f32, or f64 of an f64 model.
void for_each_fixed(const ModelSpec&, ModelWeights& weights,
                    const std::function<void(const ParameterInfo&, Tensor&)>& visit);
/// Calls `visit` for the linears of for_each_parameter, each with its weight's info; a tied projection is visited last.
void for_each_linear(const ModelSpec&, ModelWeights& weights,
                     const std::function<void(const ParameterInfo& weight, Linear&)>& visit);
/// The tensors of `weights` in the order of parameters(spec), and in that of trained_parameters(spec).
std::vector<Tensor*> tensors(const ModelSpec&, ModelWeights& weights);
std::vector<Tensor*> trained_tensors(const ModelSpec&, ModelWeights& weights);

/// Weights without tensors, in which only the linears' sizes are set.
ModelWeights empty_weights(const ModelSpec&);
/// Makes tensors with two names share one storage: a tied projection, a norm of two branches. For weights that were not
/// made by allocate_weights.
void share_storage(const ModelSpec&, ModelWeights&);
/// Uninitialised tensors for every parameter and adapter, which share storage as above; with MemoryClass::weights also
/// for the tensors of for_each_fixed.
/// `elsewhere` (an entry per unit, or none): units that another rank has. Their parameters stay empty tensors; a tied
/// head's table is allocated where the head is.
ModelWeights allocate_weights(const ModelSpec&, DType, MemoryClass, Arena&, const std::vector<bool>& elsewhere = {});
/// Zero gradients of what is trained, for weights of `dtype`; a frozen unit's own parameters have none. f32, or f64 of
/// an f64 model; storage is shared as in the weights, but a tied projection has a gradient of its own beside the embedding
/// table's (V·D elements more). Each of the two units adds to its own gradient in the order of micro-batches, so no schedule
/// changes their bits. MemoryClass::gradients.
/// `without` (an entry per unit, or none): of these units only a tied projection's gradient is allocated; `elsewhere`: of
/// these nothing.
ModelWeights allocate_gradients(const ModelSpec&, DType dtype, Arena&, const std::vector<bool>& without = {},
                                const std::vector<bool>& elsewhere = {});
/// Makes a norm of two branches share one storage again, after its tensors were set one by one.
void share_norms(const ModelSpec&, ModelWeights&);
/// Of a tied model: embed.tokens += head.projection, then head.projection = 0; called after the last BACKWARD_WEIGHT of a step,
/// it leaves the table's whole gradient in embed.tokens. Does nothing for other models.
void join_tied_gradients(const ModelSpec&, const ModelWeights& gradients);

}  // namespace tern
