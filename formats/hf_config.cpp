#include "formats/hf_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "formats/hf_config_impl.h"

namespace tern {
namespace {

using Null = HfFields::Null;

constexpr size_t kMaxConfigBytes = 4 << 20;

// Keys that cannot change what a causal language model computes. Source: the common keys of transformers'
// configurations 4.0 to 5.23 (bookkeeping, outputs asked for, classification labels, run-time switches), and marks
// fine-tuning tools leave.
constexpr std::string_view kHarmless[] = {
    "_attn_implementation", "_attn_implementation_autoset", "_attn_implementation_internal", "_commit_hash",
    "_experts_implementation", "_experts_implementation_internal", "_from_model_config", "_name_or_path",
    "attn_implementation", "cache_implementation", "chunk_size_feed_forward", "cross_attention_hidden_size",
    "decoder_start_token_id", "experts_implementation", "finetuning_task", "gradient_checkpointing", "id2label",
    "is_decoder", "label2id", "name_or_path", "num_labels", "output_attentions", "output_hidden_states",
    "output_scores", "prefix", "pretraining_tp", "problem_type", "return_dict", "return_dict_in_generate",
    "sep_token_id", "task_specific_params", "tf_legacy_loss", "tie_encoder_decoder", "tie_last_hidden_states",
    "tokenizer_class", "torchscript", "transformers_version", "unsloth_fixed", "unsloth_version", "use_bfloat16",
    "use_cache", "use_return_dict",
    // gpt2: the heads for classification, and arithmetic in a wider type
    "n_ctx", "reorder_and_upcast_attn", "summary_activation", "summary_first_dropout", "summary_proj_to_labels",
    "summary_type", "summary_use_proj"};

// Sampling settings that transformers 4 wrote here and 5 ignores here.
constexpr std::string_view kSampling[] = {"assistant_confidence_threshold",
                                          "assistant_lookbehind",
                                          "bad_words_ids",
                                          "begin_suppress_tokens",
                                          "diversity_penalty",
                                          "do_sample",
                                          "early_stopping",
                                          "encoder_no_repeat_ngram_size",
                                          "encoder_repetition_penalty",
                                          "epsilon_cutoff",
                                          "eta_cutoff",
                                          "exponential_decay_length_penalty",
                                          "forced_bos_token_id",
                                          "forced_eos_token_id",
                                          "length_penalty",
                                          "max_length",
                                          "max_new_tokens",
                                          "min_length",
                                          "min_p",
                                          "no_repeat_ngram_size",
                                          "num_assistant_tokens",
                                          "num_assistant_tokens_schedule",
                                          "num_beam_groups",
                                          "num_beams",
                                          "num_return_sequences",
                                          "remove_invalid_values",
                                          "repetition_penalty",
                                          "suppress_tokens",
                                          "target_lookbehind",
                                          "temperature",
                                          "top_k",
                                          "top_p",
                                          "typical_p"};

struct ActivationName {
  std::string_view name;
  HfActivation activation;
};
constexpr ActivationName kActivations[] = {
    {"silu", HfActivation::silu},           {"swish", HfActivation::silu},
    {"gelu", HfActivation::gelu},           {"gelu_new", HfActivation::gelu_tanh},
    {"gelu_fast", HfActivation::gelu_tanh}, {"gelu_pytorch_tanh", HfActivation::gelu_tanh}};

struct KeyName {
  std::string_view field, gpt2;
};
constexpr KeyName kGpt2Keys[] = {{"hidden_size", "n_embd"},          {"num_hidden_layers", "n_layer"},
                                 {"num_attention_heads", "n_head"},  {"max_position_embeddings", "n_positions"},
                                 {"intermediate_size", "n_inner"},   {"hidden_act", "activation_function"},
                                 {"norm_eps", "layer_norm_epsilon"}, {"attention_dropout", "attn_pdrop"}};

int64_t needed(HfFields& fields, const HfConfig& config, std::string_view field) {
  const std::string_view key = hf_key(config.model_type, field);
  std::optional<int64_t> value = fields.integer(key);
  // gpt2's configuration answers to llama's names too.
  if (key != field)
    if (const std::optional<int64_t> alias = fields.integer(field)) {
      if (value && *value != *alias) fields.fail(field, "{}, but {} is {}; keep one of them", *alias, key, *value);
      value = alias;
    }
  if (!value) fields.fail(key, "missing; a {} model needs it", config.model_type);
  if (*value < 1 || *value > INT32_MAX) fields.fail(key, "{}, expected 1 to 2147483647", *value);
  return *value;
}

void must_be(HfFields& fields, std::string_view key, bool expected, std::string_view why) {
  const std::optional<bool> value = fields.boolean(key, Null::absent);
  if (value && *value != expected) fields.fail(key, "{}, {}; expected {}", *value, why, expected);
}

void read_activation(HfFields& fields, HfConfig& config, std::string_view fallback) {
  const std::string_view key = hf_key(config.model_type, "hidden_act");
  config.hidden_act = fields.text(key).value_or(std::string(fallback));
  if (const std::optional<HfActivation> known = activation_named(config.hidden_act)) {
    config.activation = *known;
    return;
  }
  std::vector<std::string_view> names;
  for (const ActivationName& a : kActivations) names.push_back(a.name);
  fields.fail(key, "{} is not an activation tern has; it has {}{}", shown_value(Json(config.hidden_act)),
              fmt::join(names, ", "), did_you_mean(config.hidden_act, names));
}

/// Ids outside the vocabulary can never be produced or looked up: drop them, and say so.
void read_token_ids(HfFields& fields, HfConfig& config, std::optional<int64_t> default_bos,
                    std::optional<int64_t> default_eos) {
  const auto fits = [&](std::string_view key, int64_t id) {
    if (id >= 0 && id < config.vocab_size) return true;
    config.notes.push_back(fmt::format("{}: {} {} is outside the vocabulary of {}; taken as none", fields.place(), key,
                                       id, config.vocab_size));
    return false;
  };
  const auto one = [&](std::string_view key, std::optional<int64_t> fallback) -> std::optional<int64_t> {
    const std::optional<std::vector<int64_t>> ids = fields.ids(key);
    if (ids && ids->size() > 1) fields.fail(key, "a list of {}, expected one token id or null", ids->size());
    if (!ids) return fallback && fits(key, *fallback) ? fallback : std::nullopt;
    return ids->size() == 1 && fits(key, (*ids)[0]) ? std::optional((*ids)[0]) : std::nullopt;
  };
  config.bos_token_id = one("bos_token_id", default_bos);
  config.pad_token_id = one("pad_token_id", {});
  std::vector<int64_t> eos;
  if (default_eos) eos.push_back(*default_eos);
  for (const int64_t id : fields.ids("eos_token_id").value_or(eos))
    if (fits("eos_token_id", id) &&
        std::find(config.eos_token_ids.begin(), config.eos_token_ids.end(), id) == config.eos_token_ids.end())
      config.eos_token_ids.push_back(id);
}

void read_dtype(HfFields& fields, HfConfig& config) {
  const std::optional<std::string> now = fields.text("dtype", Null::absent),
                                   old = fields.text("torch_dtype", Null::absent);
  if (now && old && *now != *old) fields.fail("torch_dtype", "'{}', but dtype is '{}'; keep one of them", *old, *now);
  if (!now && !old) return;
  const std::string& name = now ? *now : *old;
  for (const auto& [spelling, dtype] : {std::pair{"float32", DType::f32}, std::pair{"bfloat16", DType::bf16},
                                        std::pair{"float16", DType::f16}, std::pair{"float64", DType::f64}})
    if (name == spelling) {
      config.dtype = dtype;
      return;
    }
  fields.fail(now ? "dtype" : "torch_dtype", "{}, expected float32, bfloat16, float16 or float64",
              shown_value(Json(name)));
}

void read_architectures(HfFields& fields, HfConfig& config) {
  config.architectures = fields.texts("architectures", Null::absent).value_or(std::vector<std::string>{});
  for (const std::string& name : config.architectures) {
    const auto ends = [&](std::string_view ending) { return name.ends_with(ending); };
    const bool language = ends("ForCausalLM") || ends("LMHeadModel") || ends("Model");
    if (!language || ends("DoubleHeadsModel"))
      fields.fail("architectures",
                  "{} is no causal language model; tern reads ...ForCausalLM, ...LMHeadModel and ...Model",
                  shown_value(Json(name)));
  }
}

void refuse_quantized(HfFields& fields) {
  for (const char* key : {"quantization_config", "compression_config"}) {
    const Json* quantized = fields.take(key);
    if (!quantized || quantized->is_null()) continue;
    std::string method = "unknown";
    if (quantized->is_object())
      if (const auto it = quantized->find("quant_method"); it != quantized->end() && it->is_string())
        method = it->get<std::string>();
    fields.fail(key,
                "the weights are quantized by method {}, which tern does not read; use the model they were made from",
                shown_value(Json(method)));
  }
}

void read_llama_like(HfFields& fields, HfConfig& c) {
  const bool mistral = c.model_type == "mistral";
  c.intermediate_size = needed(fields, c, "intermediate_size");
  c.num_key_value_heads = fields.has("num_key_value_heads") || !mistral
                              ? fields.integer("num_key_value_heads", Null::absent).value_or(c.num_attention_heads)
                              : (fields.take("num_key_value_heads"), 8);
  const std::optional<int64_t> head_dim = fields.integer("head_dim", Null::absent);
  if (!head_dim && c.hidden_size % c.num_attention_heads != 0)
    fields.fail("hidden_size", "{} is no multiple of num_attention_heads {}, and no head_dim is given", c.hidden_size,
                c.num_attention_heads);
  c.head_dim = head_dim.value_or(c.hidden_size / c.num_attention_heads);
  if (const std::optional<int64_t> length = fields.integer("max_position_embeddings")) {
    c.max_position_embeddings = *length;
  } else {
    c.max_position_embeddings = mistral ? 131072 : 2048;
    c.notes.push_back(fmt::format("{}: max_position_embeddings is missing; taken as {}, as transformers does",
                                  fields.place(), c.max_position_embeddings));
  }
  read_activation(fields, c, "silu");
  c.norm_eps = fields.number("rms_norm_eps").value_or(1e-6);
  c.rope = read_hf_rope(fields, c);
  c.attention_dropout = fields.number("attention_dropout", Null::absent).value_or(0);
  c.tie_word_embeddings = fields.boolean("tie_word_embeddings").value_or(false);

  const Json* window = fields.take("sliding_window");
  if (mistral) {
    c.sliding_window = window ? fields.integer("sliding_window", Null::absent) : std::optional<int64_t>(4096);
    must_be(fields, "attention_bias", false, "and mistral has no biases");
    must_be(fields, "mlp_bias", false, "and mistral has no biases");
  } else {
    if (window && !window->is_null())
      fields.fail("sliding_window", "{}, but a llama model has none; expected null, or model_type mistral",
                  shown_value(*window));
    c.attention_bias = fields.boolean("attention_bias").value_or(false);
    c.mlp_bias = fields.boolean("mlp_bias").value_or(false);
  }
  if (const std::optional<std::vector<std::string>> kinds = fields.texts("layer_types", Null::absent))
    for (const std::string& kind : *kinds)
      if (kind != (c.sliding_window ? "sliding_attention" : "full_attention"))
        fields.fail("layer_types", "holds {}, but every layer of this model has {}", shown_value(Json(kind)),
                    c.sliding_window ? "sliding_attention" : "full_attention");
  if (const std::optional<int64_t> length = fields.integer("max_sequence_length", Null::absent);
      length && *length != c.max_position_embeddings)
    c.notes.push_back(fmt::format("{}: max_sequence_length {} is not used; max_position_embeddings {} holds",
                                  fields.place(), *length, c.max_position_embeddings));
  read_token_ids(fields, c, 1, 2);
}

void read_gpt2(HfFields& fields, HfConfig& c) {
  c.max_position_embeddings = needed(fields, c, "max_position_embeddings");
  c.num_key_value_heads = c.num_attention_heads;
  c.head_dim = c.hidden_size / c.num_attention_heads;
  c.intermediate_size = fields.integer("n_inner", Null::absent).value_or(4 * c.hidden_size);
  read_activation(fields, c, "gelu_new");
  c.norm_eps = fields.number("layer_norm_epsilon").value_or(1e-5);
  c.attention_bias = c.mlp_bias = true;
  c.attention_dropout = fields.number("attn_pdrop").value_or(0.1);
  c.residual_dropout = fields.number("resid_pdrop").value_or(0.1);
  c.embedding_dropout = fields.number("embd_pdrop").value_or(0.1);
  c.tie_word_embeddings = fields.boolean("tie_word_embeddings").value_or(true);
  must_be(fields, "scale_attn_weights", true, "attention without 1/sqrt(head size), which tern does not have");
  must_be(fields, "scale_attn_by_inverse_layer_idx", false, "attention scaled by layer, which tern does not have");
  must_be(fields, "add_cross_attention", false, "cross-attention, which tern does not have");
  read_token_ids(fields, c, 50256, 50256);
}

void read_common(HfFields& fields, HfConfig& c) {
  must_be(fields, "is_encoder_decoder", false, "an encoder and a decoder, which tern does not have");
  if (const Json* pruned = fields.take("pruned_heads"); pruned && !pruned->is_null() && !pruned->empty())
    fields.fail("pruned_heads", "names heads taken out, which tern does not have; expected none");
  if (const Json* layers = fields.take("per_layer_config"); layers && !layers->is_null() && !layers->empty())
    fields.fail("per_layer_config", "gives layers different sizes, which tern does not have; expected none");
  if (const Json* map = fields.take("auto_map"); map && !map->is_null())
    c.notes.push_back(fmt::format("{}: auto_map names code beside the model; tern runs its own {} and no foreign code",
                                  fields.place(), c.model_type));
  c.initializer_range = fields.number("initializer_range").value_or(0.02);
  read_dtype(fields, c);
  read_architectures(fields, c);
  std::string sampling;
  for (const std::string_view key : kSampling)
    if (fields.take(key)) sampling += fmt::format("{}{}", sampling.empty() ? "" : ", ", key);
  if (!sampling.empty())
    c.notes.push_back(fmt::format("{}: {} set here {} not followed; sampling belongs in generation_config.json",
                                  fields.place(), sampling, sampling.find(',') == std::string::npos ? "is" : "are"));
}

}  // namespace

const std::vector<std::string>& supported_families() {
  static const std::vector<std::string> families{"llama", "mistral", "gpt2"};
  return families;
}

std::optional<HfActivation> activation_named(std::string_view name) {
  for (const ActivationName& a : kActivations)
    if (name == a.name) return a.activation;
  return {};
}

std::string_view hf_key(std::string_view model_type, std::string_view field) {
  if (model_type == "gpt2") {
    for (const KeyName& k : kGpt2Keys)
      if (k.field == field) return k.gpt2;
  } else if (field == "norm_eps") {
    return "rms_norm_eps";
  }
  return field;
}

HfConfig parse_hf_config(std::string_view text, std::string_view place) {
  const Json json = parse_json(text, place, {.max_bytes = kMaxConfigBytes});
  HfFields fields(json, std::string(place));
  HfConfig c;
  const std::optional<std::string> family = fields.text("model_type");
  if (!family) fields.fail("model_type", "missing; expected one of {}", fmt::join(supported_families(), ", "));
  c.model_type = *family;
  if (std::find(supported_families().begin(), supported_families().end(), c.model_type) == supported_families().end()) {
    const std::vector<std::string_view> names(supported_families().begin(), supported_families().end());
    fields.fail("model_type", "{} is not a family tern reads; it reads {}{}", shown_value(Json(c.model_type)),
                fmt::join(names, ", "), c.model_type.size() > 200 ? "" : did_you_mean(c.model_type, names));
  }
  refuse_quantized(fields);

  c.vocab_size = needed(fields, c, "vocab_size");
  c.hidden_size = needed(fields, c, "hidden_size");
  c.num_hidden_layers = needed(fields, c, "num_hidden_layers");
  c.num_attention_heads = needed(fields, c, "num_attention_heads");
  if (c.model_type == "gpt2") {
    read_gpt2(fields, c);
  } else {
    read_llama_like(fields, c);
  }
  read_common(fields, c);
  fields.finish(kHarmless);
  check_hf_values(c, ErrorKind::bad_file, place);
  return c;
}

HfConfig read_hf_config(const std::string& path) {
  return parse_hf_config(read_text_file(path, kMaxConfigBytes), path);
}

}  // namespace tern
