#pragma once
// The families of models tern reads, as one table: what a family's config.json calls its values, what it leaves to
// defaults, which variants of tern's units its blocks are made of, and what its weight files call the parameters. The
// reader and the writer of config.json, spec/, model/ (names) and other formats' readers all read it; nothing else
// asks a model for its family. docs/families.md adds one as a worked example.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "formats/hf/config.h"

namespace tern {

/// What the weight files call a parameter, without ".weight" or ".bias"; empty: the family has no such parameter. In a name
/// '#' stands for the layer's number and '@' for the expert's. ',' parts the names of matrices that lie one below the other in
/// tern's matrix. '^' marks a matrix that the file holds as (in, out). '%' marks one whose rows come in groups, one for each
/// key-value head: its query heads, its key, its value. '&' marks one tensor for all experts, without a suffix: (experts, in,
/// out), in which outputs of gate and up alternate; its biases (experts, out) are the tensor of that name and "_bias".
struct HfNames {
  std::string_view tokens, positions, token_types, embed_norm;
  std::string_view attention_norm, qkv, query_norm, key_norm, attention_out, attention_post_norm;
  std::string_view sinks;                                                 // (heads), without a suffix
  std::string_view query, query_down, query_up, kv_down, kv_norm, kv_up;  // latent attention; query: without a rank
  std::string_view mlp_norm, up, down, mlp_post_norm;
  std::string_view router, expert_up, expert_down, shared_up, shared_down, shared_gate;
  std::string_view final_norm, projection;
  friend bool operator==(const HfNames&, const HfNames&) = default;
};
/// A parameter of a family: &HfNames::qkv.
using HfPart = std::string_view HfNames::*;

enum class HfNorm : uint8_t { rms, rms_plus_one, layer };  // rms_plus_one: x̂·(1 + w), the file holds w
enum class HfNormPlace : uint8_t {                         // of f, which is attention or MLP
  before,                                                  // x + f(norm(x))
  after,                                                   // x + norm(f(x))
  around,                                                  // x + norm(f(norm(x)))
  sum,                                                     // norm(x + f(x))
};
enum class HfHeadNorm : uint8_t { none, head, row };  // of queries and keys: each head by itself, all of a row together
enum class HfPositions : uint8_t { rotary, learned, alibi };  // how positions enter
enum class HfWindows : uint8_t {  // which layers have a window; a list layer_types in the file decides, if it is there
  none,
  every,     // every layer has sliding_window
  switched,  // if use_sliding_window is true; without a list the layers from max_window_layers on, or in a family with
             // unturned_every those that do not rotate
  switched_even,   // the same; without a list every second layer from the first on, below max_window_layers
  switched_every,  // every layer, if use_sliding_window is true
  listed,          // without a list all but every n-th layer: n is the key sliding_window_pattern, else full_every
};
/// Which layers have experts in the place of one MLP.
enum class HfExperts : uint8_t {
  none,
  every,
  stepped,  // every decoder_sparse_step-th layer, without those of mlp_only_layers
  after,    // the layers from first_k_dense_replace on
};

/// Variants of the units that no key of the file changes.
struct HfBlocks {
  HfNorm norm = HfNorm::rms;
  HfNormPlace place = HfNormPlace::before;
  HfHeadNorm head_norm = HfHeadNorm::none;
  HfPositions positions = HfPositions::rotary;
  bool gated = true;
  bool out_bias = true;           // attention's output has a bias where q, k and v have one
  bool scaled_embedding = false;  // times √hidden_size
  bool shared_norm = false;       // where attention and MLP run beside each other: one norm for both, or two by a key
  bool scaled_residual_init =
      false;           // last matrices of residual branches are drawn with 1/√(2·layers) of the usual deviation
  bool causal = true;  // false: an encoder: every token sees all of its text, and no head follows
  int64_t position_offset = 0;  // rows of the table of positions in front of position 0
  bool alibi_in_bf16 = false;   // slopes and their products rounded to bf16, then divided by √head_dim
  HfWindows windows = HfWindows::none;
  HfExperts experts = HfExperts::none;
  bool shared_gate = true;  // the shared expert's result is multiplied by a sigmoid of its own
  bool sigmoid_router =
      false;  // scores are sigmoids, with a bias for the choice; groups are chosen first, then experts in them
  bool router_bias = false;    // of the router's scores, trained
  bool expert_bias = false;    // of every expert's matrices
  bool sinks = false;          // each head has a score that takes its share of the softmax and has no value
  bool latent = false;         // queries, keys and values by products of low rank
  int64_t full_every = 0;      // see HfWindows::listed; 0: no default; 1: instead windows from max_window_layers on
  int64_t unturned_every = 0;  // 0: all rotate; n: every n-th does not (listed: all without a window, if any has one)
};

/// The values of keys that a file leaves out. An absent optional: the file must have the key, unless a line says otherwise.
struct HfDefaults {
  std::optional<int64_t> intermediate_factor;  // times hidden_size
  std::optional<int64_t> kv_heads;             // absent: as many as heads
  std::optional<int64_t> head_dim;             // absent: hidden_size / heads
  std::optional<int64_t> context;
  double norm_eps = 1e-6;
  std::string_view hidden_act = "silu";
  double attention_dropout = 0;
  bool attention_bias = false, mlp_bias = false;  // where no key says it
  bool tied = false;
  std::optional<int64_t> bos, eos, pad;
  double rope_theta = 10000, local_rope_theta = 0;  // local: of windowed layers; 0: they have none of their own
  std::optional<double> partial_rotary;             // absent: whole heads are rotated, and no key says otherwise
  std::optional<int64_t> window;
  std::optional<HfRope> rope;  // where the file says nothing of positions; absent: standard
};

/// A value of HfConfig under another name: `field` as in llama's file. key "": the file has no such key, the default
/// holds. alias: a second spelling of the key, which is read too.
struct HfRename {
  std::string_view field, key, alias = "";
};
/// A further key and the value it sets.
struct HfOption {
  std::string_view key;
  std::variant<bool HfConfig::*, double HfConfig::*, int64_t HfConfig::*, std::optional<double> HfConfig::*> to;
  std::optional<double> absent = 0;  // the value where the file has no such key; nothing: the field stays empty
  std::string_view alias = "";       // a second spelling of the key of a bool or a whole number, which is read too
  bool whole = false;                // a whole value is written without a decimal point: transformers insists
  bool zero_is_null = false;         // 0 is written as null
};
/// A switch that must have the value `expected`, since tern computes nothing else; `why` stands in the message.
struct HfFixed {
  std::string_view key;
  bool expected;
  std::string_view why;
  bool written = false;  // the writer states it
};

/// What a family's files call a rotary type.
struct HfRopeName {
  std::string_view name;
  RopeType type;
};
/// The norms' names in blocks whose attention and MLP stand beside each other with a norm each.
struct HfPairOfNorms {
  std::string_view attention, mlp;
};

struct HfFamily {                 // a row of the table
  std::string_view name;          // model_type
  std::string_view architecture;  // of a causal language model
  std::string_view prefix;        // of names, lacking where the bare model was saved
  HfBlocks blocks;
  HfDefaults defaults;
  bool any_width = false;                         // hidden_size need not be a multiple of the heads
  bool has_kv_heads = true, has_head_dim = true;  // keys num_key_value_heads, head_dim
  std::vector<HfRename> renamed;
  std::vector<HfOption> options;
  std::vector<HfFixed> fixed;
  std::vector<std::string_view> unfollowed;    // keys that transformers reads and uses nowhere: noted
  bool gelu_is_tanh = false;                   // hidden_act "gelu" means its approximation
  std::vector<std::string_view> harmless;      // keys of this family that change nothing tern computes
  std::vector<std::string_view> hidden_again;  // keys that must repeat hidden_size
  bool hidden_again_written = false;           // and the writer states them
  std::vector<HfRopeName> rope_names;          // of rotary types, beside those all families have
  bool states_original_context =
      false;  // its files always state original_max_position_embeddings at the top, outside of
              // rope_scaling
  // Sets what follows from several values together, or says which values contradict each other.
  std::string (*settle)(HfConfig&) = nullptr;
  HfPairOfNorms norms_of_two;  // where num_ln_in_parallel_attn is 2
  HfNames names;
};

const std::vector<HfFamily>& hf_families();  // the table
/// The family of this model_type; nullptr: none.
const HfFamily* find_hf_family(std::string_view model_type);
/// The family of a configuration. Errors: usage, naming model_type.
const HfFamily& hf_family(const HfConfig&);
/// The blocks of this configuration: the family's, or those of a variant of it.
HfBlocks hf_blocks(const HfConfig&);
/// The names of this configuration's weights, likewise.
HfNames hf_names(const HfConfig&);
/// Whether an option of the family sets this value.
template <class T>
bool has_option(const HfFamily& family, T HfConfig::*field) {
  for (const HfOption& o : family.options)
    if (const auto* to = std::get_if<T HfConfig::*>(&o.to); to && *to == field) return true;
  return false;
}

}  // namespace tern
