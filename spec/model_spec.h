#pragma once
// ModelSpec: the architecture as an ordered list of units, read from a Hugging Face config.json. Values only; it knows
// no ranks and no devices. Each unit states parameters, FLOPs, bytes moved and saved bytes in closed form
// (spec/unit_cost.h).
//
// A residual block is one unit and holds its own pre-norm: x ← x + f(norm(x)). The draft listed the norm as a unit of
// its own; inside the block it is the one place that knows what the norm's backward needs, and Programs are half as
// long.

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/dtype.h"

namespace tern {

struct HfConfig;  // formats/hf_config.h

enum class NormKind : uint8_t { rms, layer };
struct NormSpec {
  NormKind kind = NormKind::rms;
  int64_t width = 0;
  double epsilon = 1e-5;
  friend bool operator==(const NormSpec&, const NormSpec&) = default;
};

/// Same names and order as kernels/cpu/activation.h, which spec/ may not include; model/ converts.
enum class ActivationKind : uint8_t { silu, gelu_erf, gelu_tanh, relu };

enum class RopeKind : uint8_t { none, standard, linear, dynamic, yarn, llama3, longrope };
struct RopeSpec {
  RopeKind kind = RopeKind::none;
  int64_t rotary_dim = 0;  // turned elements of a head, even
  double theta = 10000.0;
  double factor = 1.0;
  int64_t original_context = 0;                          // trained context that the scaling starts from
  double low_freq_factor = 1.0, high_freq_factor = 4.0;  // llama3
  double beta_fast = 32.0, beta_slow = 1.0, mscale = 0.0, mscale_all_dim = 0.0;  // yarn
  bool truncate = true;                                                          // yarn
  std::optional<double> attention_factor;                                        // yarn, longrope
  std::vector<double> short_factor, long_factor;                                 // longrope
};

struct EmbedSpec {
  int64_t vocab, width, positions;
  friend bool operator==(const EmbedSpec&, const EmbedSpec&) = default;
};  // positions: rows of the learned table, 0 without one
struct AttentionSpec {
  NormSpec norm;
  int64_t width, heads, kv_heads, head_dim;
  bool qkv_bias, out_bias;
  int64_t window;        // 0: full
  bool causal = true;    // false: a query sees every key (encoders)
  bool cross = false;    // keys and values come from the encoder's output
  int64_t relative = 0;  // rows of a (rows, heads) table of learned relative positions, 0 without one
  int64_t qkv_rows() const { return (heads + 2 * kv_heads) * head_dim; }
  friend bool operator==(const AttentionSpec&, const AttentionSpec&) = default;
};
struct MlpSpec {
  NormSpec norm;
  int64_t width, hidden;
  ActivationKind activation;
  bool gated, bias;  // gated: act(gate)·up from one (2·hidden, width) matrix
  friend bool operator==(const MlpSpec&, const MlpSpec&) = default;
};
/// A router sends each token to top_k of `experts` MLPs; shared_hidden: width of an MLP that every token takes, 0
/// without.
struct MoeSpec {
  NormSpec norm;
  int64_t width, hidden, experts, top_k, shared_hidden;
  ActivationKind activation;
  bool gated;
  friend bool operator==(const MoeSpec&, const MoeSpec&) = default;
};
/// End of an encoder: the norm of its output, which the decoder's cross attention reads, and the decoder's embedding
/// from the table of the EmbedSpec before.
struct BridgeSpec {
  NormSpec norm;
  int64_t vocab, width;
  friend bool operator==(const BridgeSpec&, const BridgeSpec&) = default;
};
struct HeadSpec {
  NormSpec norm;
  int64_t width, vocab;
  bool tied;
  friend bool operator==(const HeadSpec&, const HeadSpec&) = default;
};

struct Unit {
  int layer;  // -1 for embed and head
  std::variant<EmbedSpec, AttentionSpec, MlpSpec, HeadSpec, MoeSpec, BridgeSpec> spec;
  bool frozen = false;       // its own weights are not trained
  int64_t adapter_rank = 0;  // each matrix carries a trained product B·A of this rank, 0: none
  friend bool operator==(const Unit&, const Unit&) = default;
};

struct ModelSpec {
  std::string family;  // "llama", "mistral", "gpt2"
  int64_t vocab, width, layers, context;
  RopeSpec rope;
  double initializer_range = 0.02;
  std::vector<Unit> units;  // embed, (attention, mlp or moe) × layers, head; with an encoder: embed, its (attention,
                            // mlp) × layers, bridge, (attention, cross attention, mlp) × layers, head
  const EmbedSpec& embed() const { return std::get<EmbedSpec>(units.front().spec); }
  const HeadSpec& head() const { return std::get<HeadSpec>(units.back().spec); }
};

/// Errors: bad_file naming the key, for a config whose values do not make a model.
ModelSpec model_spec(const HfConfig&);
int64_t num_parameters(const ModelSpec&);  // a tied table counts once

/// Every unit's own weights frozen, each matrix of a layer with a trained product of rank `rank` (0: none).
ModelSpec with_adapters(ModelSpec, int64_t rank);

}  // namespace tern
