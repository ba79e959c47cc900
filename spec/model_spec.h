#pragma once
// ModelSpec: the architecture as an ordered list of units, read from a Hugging Face config.json. Values only: no
// ranks and no devices. spec/unit_cost.h gives each unit's parameters, FLOPs, bytes moved and saved bytes in closed
// form.
//
// A residual block is one unit and holds its own pre-norm: x ← x + f(norm(x)). The norm is not a unit of its own, so
// that one place knows what the norm's backward needs, and Programs are half as long.

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/dtype.h"
#include "formats/hf/family.h"
#include "spec/adapter_spec.h"

namespace tern {

enum class NormKind : uint8_t { rms, layer, none };
struct NormSpec {
  NormKind kind = NormKind::rms;
  int64_t width = 0;
  double epsilon = 1e-5;
  double offset = 0;  // of rms: y = x̂·(w + offset)
  bool present() const { return kind != NormKind::none; }
  friend bool operator==(const NormSpec&, const NormSpec&) = default;
};

/// Same names and order as kernels/cpu/activation.h, which spec/ may not include; model/ converts.
enum class ActivationKind : uint8_t { silu, gelu_erf, gelu_tanh, relu };

enum class RopeKind : uint8_t { none, standard, linear, dynamic, yarn, llama3, longrope };
struct RopeSpec {
  RopeKind kind = RopeKind::none;
  int64_t rotary_dim = 0;  // elements of a head that rotary positions rotate; even
  double theta = 10000.0;
  double factor = 1.0;
  int64_t original_context = 0;                          // trained context, on which the scaling is based
  double low_freq_factor = 1.0, high_freq_factor = 4.0;  // llama3
  double beta_fast = 32.0, beta_slow = 1.0, mscale = 0.0, mscale_all_dim = 0.0;  // yarn
  bool truncate = true;                                                          // yarn
  std::optional<double> attention_factor;                                        // yarn, longrope
  std::vector<double> short_factor, long_factor;                                 // longrope
};

/// How f(x) joins the residual stream: y = x + multiplier·f, y = x + norm(f), or y = norm(x + f).
struct JoinSpec {
  NormSpec norm{.kind = NormKind::none};
  bool of_sum = false;  // the norm is of x + f
  double multiplier = 1;
  friend bool operator==(const JoinSpec&, const JoinSpec&) = default;
};
/// Which rotary positions queries and keys get: none, those of ModelSpec::rope, or those of ModelSpec::local_rope.
enum class RopeUse : uint8_t { none, main, local };
/// Norms of queries and keys before rotary positions: each head by itself, or all heads of a row together.
enum class HeadNormKind : uint8_t { none, head, row };
/// ALiBi: a bias on scores that falls with the distance, by one slope per head. exact, or bf16: rounded as in Falcon.
enum class AlibiKind : uint8_t { none, exact, bf16 };

/// Latent attention: keys and values (and queries, if query_rank > 0) are projected from narrow rows after a norm of
/// these rows. kv_rank 0: no latent attention. Of a head's query and key, `plain` elements get no rotary positions,
/// `rotary` elements get them. The key's `rotary` elements are the same for all heads. A head's values have `value` elements.
struct LatentSpec {
  int64_t query_rank = 0, kv_rank = 0, plain = 0, rotary = 0, value = 0;
  bool interleaved = true;  // the files hold rotary elements as pairs of neighbours, not as two halves
  bool present() const { return kv_rank > 0; }
  static NormSpec norm(int64_t width) { return {.width = width, .epsilon = 1e-6}; }  // 1e-6, not the model's epsilon
  friend bool operator==(const LatentSpec&, const LatentSpec&) = default;
};

struct EmbedSpec {
  int64_t vocab, width, positions;  // positions: rows of the table of learned positions; 0: no such table
  int64_t position_offset = 0;      // position p reads row p + position_offset
  int64_t token_types = 0;          // rows of the table of token types (segments); 0: no such table
  double multiplier = 1;            // of the tokens' embeddings
  NormSpec norm{.kind = NormKind::none};
  friend bool operator==(const EmbedSpec&, const EmbedSpec&) = default;
};
struct AttentionSpec {
  NormSpec norm;
  int64_t width, heads, kv_heads, head_dim;
  bool qkv_bias, out_bias;
  int64_t window;        // 0: full
  bool causal = true;    // false: a query sees every key (encoders)
  bool cross = false;    // keys and values come from the encoder's output
  int64_t relative = 0;  // rows of a (rows, heads) table of learned relative positions, 0 without one
  RopeUse rope = RopeUse::main;
  HeadNormKind head_norm = HeadNormKind::none;  // an rms norm with the epsilon and offset of head_norm_like
  NormSpec head_norm_like = {};
  double scale = 0;    // of scores; 0: 1/√head_dim
  double softcap = 0;  // scores become softcap·tanh(score/softcap); 0: none
  AlibiKind alibi = AlibiKind::none;
  JoinSpec join = {};
  bool sinks = false;  // each head has a learned score that takes its share of the softmax, but has no key and no value
  LatentSpec latent = {};  // if present: kv_heads = heads, head_dim = plain + rotary, the rotary elements first
  /// How many norms one row of queries (or of keys) takes, and the width of each.
  int64_t query_norms() const { return head_norm == HeadNormKind::head ? heads : 1; }
  int64_t key_norms() const { return head_norm == HeadNormKind::head ? kv_heads : 1; }
  int64_t query_norm_width() const { return heads * head_dim / query_norms(); }
  int64_t key_norm_width() const { return kv_heads * head_dim / key_norms(); }
  int64_t qkv_rows() const { return (heads + 2 * kv_heads) * head_dim; }
  /// Width of the rows that the output projection reads.
  int64_t value_rows() const { return heads * (latent.present() ? latent.value : head_dim); }
  friend bool operator==(const AttentionSpec&, const AttentionSpec&) = default;
};
/// Bounds of a gated unit: up is clamped to ±limit, the gate g only from above, to limit. The unit then computes
/// g·σ(alpha·g)·(up + 1) instead of act(gate)·up. limit 0: no bounds.
struct GateBounds {
  double alpha = 0, limit = 0;
  bool present() const { return limit > 0; }
  friend bool operator==(const GateBounds&, const GateBounds&) = default;
};
struct MlpSpec {
  NormSpec norm;
  int64_t width, hidden;
  ActivationKind activation;
  bool gated, bias;  // gated: act(gate)·up from one (2·hidden, width) matrix
  JoinSpec join = {};
  GateBounds bounds = {};
  friend bool operator==(const MlpSpec&, const MlpSpec&) = default;
};
enum class RouterScore : uint8_t { softmax, sigmoid };
/// A router sends each token to top_k of `experts` MLPs. shared_hidden: hidden width of an MLP that every token takes; 0: no such MLP.
/// With n = norm(x), f(x) = Σ over the chosen experts of weight·expert(n), plus shared(n), which a sigmoid may scale (shared_gate).
struct MoeSpec {
  NormSpec norm;
  int64_t width, hidden, experts, top_k, shared_hidden;
  ActivationKind activation;
  bool gated;
  bool normalized = true;    // the chosen probabilities are divided by their sum
  bool shared_gate = false;  // the shared MLP's result is multiplied by sigmoid(gate·n)
  RouterScore score = RouterScore::softmax;
  double scaling = 1;                  // factor of the experts' weights
  int64_t groups = 1, top_groups = 1;  // experts are chosen only from the top_groups best of `groups` equal groups
  bool choice_bias = false;            // a number per expert, not trained, added to its score only for the choice
  bool router_bias = false;            // a number per expert, trained, added to the router's output
  bool expert_bias = false;            // biases of every expert's matrices
  GateBounds bounds = {};              // of the experts
  /// expert: one expert; shared: the MLP that every token takes; both as MLPs without a norm.
  MlpSpec expert() const {
    return {{.kind = NormKind::none}, width, hidden, activation, gated, expert_bias, {}, bounds};
  }
  MlpSpec shared() const { return {{.kind = NormKind::none}, width, shared_hidden, activation, gated, false}; }
  friend bool operator==(const MoeSpec&, const MoeSpec&) = default;
};
/// The end of an encoder and the start of its decoder: the norm of the encoder's output, which cross attention reads,
/// and the embedding of the decoder's tokens by the table of the EmbedSpec before.
struct BridgeSpec {
  NormSpec norm;
  int64_t vocab, width;
  friend bool operator==(const BridgeSpec&, const BridgeSpec&) = default;
};
/// Attention and MLP beside each other: y = x + attention(norm(x)) + mlp(norm(x)).
struct ParallelSpec {
  AttentionSpec attention;
  MlpSpec mlp;
  bool shared_norm;  // the MLP reads the attention's norm and has none of its own
  friend bool operator==(const ParallelSpec&, const ParallelSpec&) = default;
};
struct HeadSpec {
  NormSpec norm;
  int64_t width, vocab;
  bool tied;
  double multiplier = 1;  // of logits
  double softcap = 0;     // then softcap·tanh(logit/softcap); 0: none
  friend bool operator==(const HeadSpec&, const HeadSpec&) = default;
};

/// Whether a unit's matrices (or its table) stay coded, as the model's files hold them. Coded matrices are not trained;
/// only adapters beside them are.
struct StoredMatrices {
  bool coded = false;
  int64_t elements = 0, bytes = 0;  // 0 for a tied head: its table counts as the embedding's
  friend bool operator==(const StoredMatrices&, const StoredMatrices&) = default;
};

struct Unit {
  int layer;  // as the model's files count them; -1 for embed, bridge and head. Not a place among the search's layers (plan/layers.h)
  std::variant<EmbedSpec, AttentionSpec, MlpSpec, HeadSpec, MoeSpec, BridgeSpec, ParallelSpec> spec;
  bool frozen = false;    // its own weights are not trained
  UnitAdapters adapters;  // trained beside its matrices
  StoredMatrices stored = {};
  friend bool operator==(const Unit&, const Unit&) = default;
};

/// Whether any parameter of a unit is trained: its own, or its adapters'.
inline bool is_trained(const Unit& u) { return !u.frozen || !u.adapters.empty(); }
/// The attention, MLP or experts of a unit, alone or within a ParallelSpec; nullptr: the unit has none.
const AttentionSpec* attention_of(const Unit&);
const MlpSpec* mlp_of(const Unit&);
const MoeSpec* moe_of(const Unit&);

struct ModelSpec {
  std::string family;  // a name of formats/hf/family.h, or of a preset
  int64_t vocab, width, layers, context;
  RopeSpec rope, local_rope;
  double initializer_range = 0.02;
  bool scaled_residual_init = false;  // a branch's last matrix starts with deviation initializer_range/√(2·layers)
  bool predicts = true;  // false: an encoder, which has no next token; its head is the embedding's table without a norm
  int64_t skipped_layers = 0;  // layers beyond `layers` whose weights may be in the files; they are not read
  HfNames names;               // what the weight files call the parameters
  std::string_view prefix;     // of each of these names; files of the bare model (without a head) lack it
  std::vector<Unit> units;  // embed, (attention, mlp or moe; or ParallelSpec) × layers, head; with an encoder: embed,
                            // its (attention, mlp) × layers, bridge, (attention, cross attention, mlp) × layers, head
  bool turns() const { return rope.kind != RopeKind::none; }
  const EmbedSpec& embed() const { return std::get<EmbedSpec>(units.front().spec); }
  const HeadSpec& head() const { return std::get<HeadSpec>(units.back().spec); }
};

/// The first layer's attention; the first MLP of any layer (nullptr: all layers have experts).
const AttentionSpec& first_attention(const ModelSpec&);
const MlpSpec* first_mlp(const ModelSpec&);

/// Errors: bad_file naming the key, for a config whose values do not make a model.
ModelSpec model_spec(const HfConfig&);
/// How many positions the table of learned positions has; no sequence may be longer. 0: there is no such table.
int64_t learned_positions(const ModelSpec&);
int64_t num_parameters(const ModelSpec&);  // a tied table counts once
/// How many numbers are not trained and stay f32 (f64 for a model in f64): biases of routers' choices (MoeSpec::choice_bias).
int64_t num_fixed_numbers(const ModelSpec&);

/// The matrices of a unit that can carry an adapter, as the weight files with these names hold them.
std::vector<AdaptedModule> adapted_modules(const Unit&, const HfNames& names);
/// The model with every unit's own weights frozen and an adapter of `rank` (0: none) and `scale` on each of adapted_modules.
ModelSpec with_adapters(ModelSpec, int64_t rank, double scale = 1);
/// The model as it is evaluated: its adapters have no dropout.
ModelSpec without_dropout(ModelSpec);

}  // namespace tern
