#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "formats/hf_config_impl.h"

namespace tern {
namespace {

/// One config being judged: `kind` and `place` say whose fault it would be.
struct Judge {
  const HfConfig& config;
  ErrorKind kind;
  std::string_view place;

  template <class... Args>
  [[noreturn]] void fail(std::string_view field, fmt::format_string<Args...> format, Args&&... args) const {
    throw Error(kind, "{}: {}: {}", place, hf_key(config.model_type, field),
                fmt::format(format, std::forward<Args>(args)...));
  }
  void size(std::string_view field, int64_t value) const {
    if (value < 1 || value > INT32_MAX) fail(field, "{}, expected 1 to 2147483647", value);
  }
  void share(std::string_view field, double value) const {
    if (!(value >= 0 && value < 1)) fail(field, "{}, expected at least 0 and less than 1", value);
  }
  void id(std::string_view field, int64_t value) const {
    if (value < 0 || value >= config.vocab_size)
      fail(field, "{}, expected an id of the vocabulary, 0 to {}", value, config.vocab_size - 1);
  }
};

}  // namespace

void check_hf_values(const HfConfig& c, ErrorKind kind, std::string_view place) {
  const Judge judge{c, kind, place};
  const bool gpt2 = c.model_type == "gpt2";
  if (std::find(supported_families().begin(), supported_families().end(), c.model_type) == supported_families().end())
    judge.fail("model_type", "'{}', expected one of {}", c.model_type, fmt::join(supported_families(), ", "));

  judge.size("vocab_size", c.vocab_size);
  judge.size("hidden_size", c.hidden_size);
  judge.size("intermediate_size", c.intermediate_size);
  judge.size("num_hidden_layers", c.num_hidden_layers);
  judge.size("num_attention_heads", c.num_attention_heads);
  judge.size("num_key_value_heads", c.num_key_value_heads);
  judge.size("head_dim", c.head_dim);
  judge.size("max_position_embeddings", c.max_position_embeddings);
  if (c.num_attention_heads % c.num_key_value_heads != 0)
    judge.fail("num_attention_heads", "{} is no multiple of num_key_value_heads {}", c.num_attention_heads,
               c.num_key_value_heads);
  // Mistral alone lets head_dim × heads differ from hidden_size without hidden_size being a multiple of the heads.
  if (c.model_type != "mistral" && c.hidden_size % c.num_attention_heads != 0)
    judge.fail("hidden_size", "{} is no multiple of {} {}", c.hidden_size, hf_key(c.model_type, "num_attention_heads"),
               c.num_attention_heads);
  if (c.head_dim > INT32_MAX / c.num_attention_heads)
    judge.fail("head_dim", "{} times {} heads, expected a product below 2^31", c.head_dim, c.num_attention_heads);
  const double per_layer = 2.0 * static_cast<double>(c.hidden_size) *
                               static_cast<double>(c.head_dim * (c.num_attention_heads + c.num_key_value_heads)) +
                           3.0 * static_cast<double>(c.hidden_size) * static_cast<double>(c.intermediate_size);
  const double parameters = per_layer * static_cast<double>(c.num_hidden_layers) +
                            static_cast<double>(c.hidden_size) * (2.0 * static_cast<double>(c.vocab_size) +
                                                                  static_cast<double>(c.max_position_embeddings));
  if (parameters > 1e17)
    judge.fail("num_hidden_layers", "{} layers of this size are {:.0e} parameters, more than tern counts (1e17)",
               c.num_hidden_layers, parameters);

  if (activation_named(c.hidden_act) != c.activation)
    judge.fail("hidden_act", "'{}' is not the name of the activation set", c.hidden_act);
  if (!(c.norm_eps > 0 && c.norm_eps <= 1))
    judge.fail("norm_eps", "{}, expected more than 0 and at most 1", c.norm_eps);
  if (!(c.initializer_range >= 0 && c.initializer_range <= 1))
    judge.fail("initializer_range", "{}, expected 0 to 1", c.initializer_range);
  judge.share("attention_dropout", c.attention_dropout);
  judge.share("resid_pdrop", c.residual_dropout);
  judge.share("embd_pdrop", c.embedding_dropout);
  if (c.sliding_window) judge.size("sliding_window", *c.sliding_window);
  if (c.bos_token_id) judge.id("bos_token_id", *c.bos_token_id);
  if (c.pad_token_id) judge.id("pad_token_id", *c.pad_token_id);
  for (const int64_t eos : c.eos_token_ids) judge.id("eos_token_id", eos);
  if (c.dtype && *c.dtype != DType::f32 && *c.dtype != DType::bf16 && *c.dtype != DType::f16 && *c.dtype != DType::f64)
    judge.fail("dtype", "{}, expected f32, bf16, f16 or f64", name_of(*c.dtype));

  if (gpt2) {
    if (c.rope.type != RopeType::none)
      judge.fail("rope_type", "'{}', but gpt2 learns its positions; expected none", name_of(c.rope.type));
    if (c.num_key_value_heads != c.num_attention_heads)
      judge.fail("num_key_value_heads", "{}, but gpt2 has one per head", c.num_key_value_heads);
    if (c.head_dim != c.hidden_size / c.num_attention_heads)
      judge.fail("head_dim", "{}, but gpt2's is n_embd / n_head", c.head_dim);
    if (!c.attention_bias || !c.mlp_bias) judge.fail("attention_bias", "absent, but gpt2 has biases everywhere");
  } else {
    if (c.rope.type == RopeType::none)
      judge.fail("rope_type", "none, but {} turns positions; expected default or another", c.model_type);
    if (c.residual_dropout != 0 || c.embedding_dropout != 0)
      judge.fail("resid_pdrop", "set, but {} has only attention_dropout", c.model_type);
    if (c.model_type == "mistral" && (c.attention_bias || c.mlp_bias))
      judge.fail("attention_bias", "true, but mistral has no biases");
    check_hf_rope(c, kind, place);
  }
  if (c.sliding_window && c.model_type != "mistral")
    judge.fail("sliding_window", "{}, but {} has none", *c.sliding_window, c.model_type);
}

void check_hf_config(const HfConfig& config) { check_hf_values(config, ErrorKind::usage, "model config"); }

}  // namespace tern
