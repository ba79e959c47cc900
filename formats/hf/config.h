#pragma once
// config.json of a Hugging Face model directory as plain values: the families of formats/hf/family.h, in the form
// transformers 5 writes and the one transformers 4 wrote. Bytes and checks, no maths: spec/ turns these values into
// units.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"

namespace tern {

enum class HfActivation : uint8_t {  // what hidden_act computes
  silu,                              // x·sigmoid(x)
  gelu,                              // x·Φ(x), with erf
  gelu_tanh,                         // the tanh approximation: "gelu_new", "gelu_pytorch_tanh", "gelu_fast"
  relu,                              // max(x, 0)
};

enum class RopeType : uint8_t { none, standard, linear, dynamic, yarn, llama3, longrope };  // none: no rotation
/// "none", "default", "linear", "dynamic", "yarn", "llama3", "longrope".
std::string_view name_of(RopeType);

/// Rotary positions. Numbers a type does not use stay at their defaults; optional ones are absent when the file leaves
/// their value to a formula (yarn's and longrope's attention factor).
struct HfRope {
  RopeType type = RopeType::none;  // none: learned positions (gpt2) or a bias by distance (bloom)
  double theta = 10000;
  double partial = 1;                            // the share of a head's elements that is rotated, rounded down
  std::optional<double> factor;                  // linear, dynamic, yarn, llama3: always set; longrope: absent means
                                                 // max_position_embeddings / original_max_position_embeddings
  int64_t original_max_position_embeddings = 0;  // yarn, llama3, longrope: always set; else 0
  std::optional<double> attention_factor;        // yarn, longrope
  double beta_fast = 32, beta_slow = 1;          // yarn
  std::optional<double> mscale, mscale_all_dim;  // yarn
  bool truncate = true;                          // yarn: round the ramp's ends to whole dimensions
  double low_freq_factor = 1, high_freq_factor = 4;  // llama3
  std::vector<double> short_factor, long_factor;     // longrope: head_dim / 2 numbers each

  friend bool operator==(const HfRope&, const HfRope&) = default;
};

/// The number of elements of a head that are rotated.
int64_t rotary_dim(const HfRope&, int64_t head_dim);

/// Names as in llama's file, whatever the family calls them; every field holds the value transformers would compute
/// with, family defaults filled in. A program may build one itself: set the sizes and rope.type, then check_hf_config.
struct HfConfig {
  std::string model_type = "llama";  // a name of formats/hf/family.h
  std::vector<std::string> architectures;

  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int64_t num_hidden_layers = 0;
  int64_t num_attention_heads = 0;
  int64_t num_key_value_heads = 0;  // divides num_attention_heads
  int64_t head_dim = 0;             // need not be hidden_size / num_attention_heads
  int64_t max_position_embeddings = 0;

  std::string hidden_act = "silu";  // as the file spells it
  HfActivation activation = HfActivation::silu;
  double norm_eps = 1e-6;
  HfRope rope;
  std::optional<HfRope> local_rope;       // of layers with a window, where it is another (gemma 3)
  std::optional<int64_t> sliding_window;  // a token sees this many positions, itself included; absent: all before it
  std::vector<bool> windowed_layers;      // the layers that have the window; empty: all
  std::vector<bool> rotary_layers;        // the layers that rotate queries and keys (smollm3); empty: all

  bool attention_bias = false;  // q, k, v, and o where the family has one there
  bool mlp_bias = false;        // every matrix of the MLP
  bool tie_word_embeddings = false;

  bool parallel_residual = false;                              // x + attention(x) + mlp(x), not one after the other
  bool alibi = false;                                          // falcon: a bias by distance instead of rotary positions
  bool multi_query = false, new_decoder_architecture = false;  // falcon: where num_key_value_heads comes from
  int64_t parallel_norms = 0;                                  // falcon: 2: attention and MLP have a norm each

  // Experts in the place of an MLP; num_experts 0: none.
  int64_t num_experts = 0, experts_per_token = 0;
  int64_t expert_size = 0;          // hidden width of one; 0: intermediate_size
  int64_t shared_expert_size = 0;   // of an MLP that every token takes; 0: none
  bool normalized_experts = true;   // the chosen probabilities are divided by their sum
  std::vector<bool> expert_layers;  // the layers that have them; empty: all
  double expert_scaling = 1;        // of their weights
  double gate_alpha = 0,
         gate_limit = 0;        // experts of gpt_oss are g·σ(alpha·g)·(u + 1), g and u within the limit; 0: others
  bool grouped_choice = false;  // experts are chosen from the best top_groups of expert_groups
  int64_t expert_groups = 1, top_groups = 1;
  // How the reference trains the router, kept as facts: tern adds neither noise nor a load-balancing loss.
  double router_jitter = 0, router_loss_coefficient = 0.001;
  bool router_loss = false;

  // Latent attention: ranks of queries (0: none), and of keys and values; head_dim is then the part of a head that
  // turns.
  int64_t query_rank = 0, kv_rank = 0, plain_head_dim = 0, value_head_dim = 0;
  bool rope_interleaved = false;  // the files hold turned elements in pairs of neighbours
  int64_t predicting_layers = 0;  // layers after the last whose weights the files may hold: tern does not run them

  int64_t type_vocab_size = 0;  // bert: kinds of segments, a row of the embedding each

  // What a family multiplies or bounds; the defaults change nothing.
  double embedding_multiplier = 1, residual_multiplier = 1, logits_scaling = 1;  // logits are divided
  std::optional<double> attention_multiplier,
      query_pre_attn_scalar;  // scores are multiplied by attention_multiplier, else by
                              // query_pre_attn_scalar^(-1/2), else by head_dim^(-1/2)
  std::optional<double> attn_logit_softcapping, final_logit_softcapping;  // c·tanh(z/c)

  std::optional<int64_t> bos_token_id, pad_token_id;
  std::vector<int64_t> eos_token_ids;  // empty: none

  double initializer_range = 0.02;
  double attention_dropout = 0, residual_dropout = 0,
         embedding_dropout = 0;  // kept as facts: tern's training drops nothing
  std::optional<DType> dtype;    // of the weights as saved; f32, bf16, f16 or f64
  bool coded = false;            // quantization_config names tern: matrices are coded (model/coded_tensors.h)

  /// What the reader saw and did not follow, one sentence each, for the caller to show: an id outside the vocabulary,
  /// sampling settings that belong in generation_config.json, …
  std::vector<std::string> notes;

  friend bool operator==(const HfConfig&, const HfConfig&) = default;
};

/// The families read, for messages: {"llama", "mistral", "gpt2", …}.
const std::vector<std::string>& supported_families();

/// Reads config.json. Unknown keys are errors naming the nearest known one, except keys of transformers that cannot
/// change what a language model computes. Duplicate keys, wrong types, values out of range, head counts that do not
/// divide, families and quantized weights tern does not read: all bad_file, "PLACE: KEY: fact, expectation; remedy".
/// Source  the configuration classes and rotary validation of transformers 5.23, behaviour observed by running them.
HfConfig read_hf_config(const std::string& path);
HfConfig parse_hf_config(std::string_view json, std::string_view place);

/// Makes the reader's checks on a configuration that a program built. Errors: usage, naming the field.
void check_hf_config(const HfConfig&);

/// Sizes of a model, as doubles, which no value of a file overflows. `parameters` equals num_parameters of spec/ as long as a
/// double counts exactly.
struct HfSize {
  double parameters = 0;
  double row = 0;      // elements of activations that the forward pass of one token makes, over all layers
  double experts = 0;  // experts, over all layers
};
HfSize hf_config_size(const HfConfig&);

/// How transformers 5 and 4 spell dtype and rotary positions.
enum class HfForm : uint8_t { v5, v4 };
/// The file as text: transformers 5 spelling (dtype, rope_parameters), or transformers 4 spelling (torch_dtype,
/// rope_theta, rope_scaling). Parsing either gives the same values again. Errors: usage, as check_hf_config.
std::string hf_config_json(const HfConfig&, HfForm = HfForm::v5);

}  // namespace tern
