#pragma once
// The forward and the two backward passes of each unit, written once for training and inference. f32 and
// bf16 run on the CPU kernels, f64 on their plain twins. T tokens of a ragged batch; D width.

#include <cstdint>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "model/kv_view.h"
#include "model/rope_table.h"
#include "model/weight_source.h"

namespace tern {

/// Who multiplies. Evaluation and inference always use exact; fast takes oneDNN, unless own kernels were measured to be faster
/// (kernels/onednn/fast_matmul.h).
enum class Multiply : uint8_t { exact, fast };

/// Sees the inputs that linears multiply: for calibration and for methods that learn from inputs.
class InputObserver {
 public:
  virtual ~InputObserver() = default;
  /// `x` (T, in) are the rows that the linear is about to multiply.
  virtual void see(const Linear&, const Tensor& x) = 0;
};

struct TensorRanks;   // model/tensor_ranks.h
struct ContextRanks;  // model/context_ranks.h

/// What dropout of adapters (Branch::dropout) is keyed by: seed, step and the row's number in the step's
/// batch. So recomputing, resuming, or another split into micro-batches or ranks drops the same inputs.
struct DropoutPlace {
  uint64_t seed = 0;
  int64_t step = 0, first_row = 0;
};

struct Compute {
  Arena& arena;
  Multiply multiply = Multiply::exact;
  InputObserver* observer = nullptr;
  /// For several adapters side by side: where the rows of each adapter begin, then where the last one's end (Branch::adapter).
  /// Rows before the first entry run without an adapter. Empty: all rows run without one.
  std::span<const int64_t> adapter_rows = {};
  // In training only: the group of ranks that share out each matrix, and the rows between units. x, y and their gradients then
  // have this rank's rows alone, and the ModelSpec is this rank's part.
  const TensorRanks* tensor = nullptr;
  // Training alone: ranks that have parts of a micro-batch's rows (model/context_ranks.h). The Rows are then this rank's, their starts those
  // of all.
  const ContextRanks* context = nullptr;
  // Training alone: absent: nothing is left out.
  std::optional<DropoutPlace> dropout = {};
};

/// The rows of one forward: sequences laid end to end. Positions count from the start of each sequence (plus its past).
struct Rows {
  std::span<const int32_t> tokens;      // (T), each < vocab (checked where they come in)
  std::vector<int64_t> starts;          // num_sequences + 1, from 0 to T
  std::vector<int32_t> positions;       // (T)
  const RopeTable* rope = nullptr;      // nullptr for learned positions; covers every position
  std::span<const int32_t> types = {};  // (T) kinds of segments; empty: all the first
  /// Without a cache: keys and values are rounded as a cache of this type would keep them, which gives the bits of a run
  /// with that cache.
  std::optional<KvType> kv = {};
};
/// Rows whose sequences start from position 0.
Rows make_rows(std::span<const int32_t> tokens, std::vector<int64_t> starts, const RopeTable*);

// Forward keeps x, the unit's own input (a shared handle, not a copy), and a mean only for a layer norm. backward_input
// leaves the members that begin with `d`, and an MLP's hidden rows, for backward_weight. The normed rows and the
// activation are made again instead of kept.

/// Kept of a norm that joins a branch to the residual stream: the rows that it normed, and their statistics. Empty without such
/// a norm.
struct JoinSaved {
  Tensor x_TD, mean_T, rstd_T;
};
/// Empty unless the rows are normed.
struct EmbedSaved {
  Tensor x_TD, mean_T, rstd_T;
};
struct LatentSaved {
  Tensor query_TR, query_rstd, kv_TR, kv_rstd;      // the narrow rows before their norms; kv_TR also holds the
  Tensor dquery_TR, dkv_TR, dquery_norm, dkv_norm;  // turned key
};
struct AttentionSaved {
  Tensor x_TD, mean_T, rstd_T, qkv_TC, context_TE, lse_TH;
  Tensor query_rstd, key_rstd;  // of the norms of queries and keys; qkv then holds their inputs, before rope
  JoinSaved join;
  LatentSaved latent;
  Tensor dqkv_TC, dnormed_TD;
  Tensor dquery_norm, dkey_norm;  // the gradients of those norms' weights
  Tensor dsinks;                  // (heads); of a context group zero but for this rank's heads
};
struct MlpSaved {
  Tensor x_TD, mean_T, rstd_T, up_TG;
  JoinSaved join;
  Tensor dup_TG, hidden_TF, dnormed_TD;  // dup in the place of up
};
struct ParallelSaved {
  AttentionSaved attention;
  MlpSaved mlp;
};
/// What a router decided for T tokens; R = T·K rows, sorted by expert (kernels/cpu/experts.h).
struct Routing {
  Tensor scores_TE, weights_TK, chosen_TK, rows_TK, tokens_R, begin_E;
};
struct MoeSaved {
  Tensor x_TD, mean_T, rstd_T;
  Routing routing;
  Tensor up_RG, shared_up_TG, shared_gate_T;  // the gate after its sigmoid
  Tensor dup_RG, dshared_up_TG, dshared_gate_T, dlogits_TE, dnormed_TD;
};
struct HeadSaved {
  Tensor x_TD, mean_T, rstd_T, dnormed_TD;
};
using UnitSaved = std::variant<EmbedSaved, AttentionSaved, MlpSaved, HeadSaved, ParallelSaved, MoeSaved>;
/// The value of UnitSaved before anything ran: empty tensors of the unit's kind.
UnitSaved nothing_saved(const Unit&);
/// Drops what backward_input left for backward_weight.
void drop_left(UnitSaved&);

/// y = unit(x), for all but the head. `x` is empty for embed. y is allocated here (activations).
/// saved == nullptr: inference, nothing is kept. kv != nullptr: attention reads and extends the cache.
Tensor unit_forward(const ModelSpec&, int unit, const UnitWeights&, const Rows&, const Tensor& x_TD, UnitSaved* saved,
                    KvView* kv, const Compute&);
/// dx from dy, leaving in `saved` what the weight part needs. Not for embed. For the head dy is empty: the loss has
/// given saved.dnormed_TD.
Tensor unit_backward_input(const ModelSpec&, int unit, const UnitWeights&, const Rows&, const Tensor& dy_TD,
                           UnitSaved& saved, const Compute&);
/// Adds this micro-batch's weight gradients; never overwrites. Gradients are f32 (f64 of an f64 model), made by
/// allocate_weights. For embed dy is the gradient of its output.
void unit_backward_weight(const ModelSpec&, int unit, const UnitWeights&, const Rows&, const Tensor& dy_TD,
                          UnitSaved& saved, UnitWeights& gradients, const Compute&);

/// The head in training: final norm, logits tile by tile, loss and both gradients in one pass: logits never exist all at once.
/// The gradient of the projection is added here; BACKWARD_INPUT of the head is then only the norm's.
/// targets (T), < 0: no loss. Returns Σ over targets of -log p. Gradients are those of `scale`·Σ.
double head_forward_loss(const ModelSpec&, const HeadWeights&, const Rows&, const Tensor& x_TD,
                         std::span<const int32_t> targets, double scale, HeadSaved& saved, HeadWeights& gradients,
                         const Compute&);
/// -log p(target) per row (0 where target < 0), by tiles, without gradients: evaluation.
std::vector<double> head_losses(const ModelSpec&, WeightSource, const Tensor& x_TD, std::span<const int32_t> targets,
                                const Compute&);
/// Logits (rows.size(), V) in f32 (f64 if f64) of the named rows of x.
Tensor head_logits(const ModelSpec&, WeightSource, const Tensor& x_TD, std::span<const int32_t> rows, const Compute&);

/// The whole forward without saving: what evaluation and inference call. Leases one unit's weights at a time. Returns
/// the last block's output (T, D).
Tensor model_forward(const ModelSpec&, WeightSource, const Rows&, KvView* kv, const Compute&);

}  // namespace tern
