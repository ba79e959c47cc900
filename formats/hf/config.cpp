#include "formats/hf/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "formats/hf/config_impl.h"
#include "formats/hf/packing.h"
#include "formats/small_file.h"

namespace tern {
namespace {

constexpr size_t kMaxConfigBytes = 4 << 20;

// Keys that cannot change what a causal language model computes. Source: the common keys of transformers'
// configurations 4.0 to 5.23 (bookkeeping, outputs asked for, classification labels, run-time switches), and marks
// fine-tuning tools leave.
constexpr std::string_view kHarmless[] = {"_attn_implementation",
                                          "_attn_implementation_autoset",
                                          "_attn_implementation_internal",
                                          "_commit_hash",
                                          "_experts_implementation",
                                          "_experts_implementation_internal",
                                          "_from_model_config",
                                          "_name_or_path",
                                          "_num_labels",
                                          "attn_implementation",
                                          "cache_implementation",
                                          "chunk_size_feed_forward",
                                          "cross_attention_hidden_size",
                                          "decoder_start_token_id",
                                          "experts_implementation",
                                          "finetuning_task",
                                          "flash_attn",
                                          "gradient_checkpointing",
                                          "id2label",
                                          "is_decoder",
                                          "label2id",
                                          "license",
                                          "name_or_path",
                                          "num_labels",
                                          "output_attentions",
                                          "output_hidden_states",
                                          "output_scores",
                                          "prefix",
                                          "pretraining_tp",
                                          "problem_type",
                                          "return_dict",
                                          "return_dict_in_generate",
                                          "sep_token_id",
                                          "task_specific_params",
                                          "tf_legacy_loss",
                                          "tie_encoder_decoder",
                                          "tie_last_hidden_states",
                                          "tokenizer_class",
                                          "torchscript",
                                          "transformers.js_config",
                                          "transformers_version",
                                          "unsloth_fixed",
                                          "unsloth_version",
                                          "use_bfloat16",
                                          "use_cache",
                                          "use_flash_attention",
                                          "use_flash_attn",
                                          "use_return_dict"};

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
constexpr ActivationName kActivations[] = {{"silu", HfActivation::silu},
                                           {"swish", HfActivation::silu},
                                           {"gelu", HfActivation::gelu},
                                           {"gelu_new", HfActivation::gelu_tanh},
                                           {"gelu_fast", HfActivation::gelu_tanh},
                                           {"gelu_pytorch_tanh", HfActivation::gelu_tanh},
                                           {"relu", HfActivation::relu}};

std::string_view alias_of(const HfFamily& family, std::string_view field) {
  for (const HfRename& r : family.renamed)
    if (r.field == field) return r.alias;
  return "";
}

/// What get(key) gives, or get(alias) if there is one; two that differ are an error.
auto read_either(HfFields& fields, std::string_view key, std::string_view alias, auto get) {
  auto value = get(key);
  if (alias.empty()) return value;
  const auto other = get(alias);
  if (value && other && *value != *other) fields.fail(alias, "{}, but {} is {}; keep one of them", *other, key, *value);
  return value ? value : other;
}

int64_t needed(HfFields& fields, const HfFamily& family, std::string_view field) {
  const std::string_view key = hf_key(family.name, field);
  const std::optional<int64_t> value =
      read_either(fields, key, alias_of(family, field), [&](std::string_view name) { return fields.integer(name); });
  if (!value) fields.fail(key, "missing; a {} model needs it", family.name);
  if (*value < 1 || *value > INT32_MAX) fields.fail(key, "{}, expected 1 to 2147483647", *value);
  return *value;
}

void must_be(HfFields& fields, std::string_view key, bool expected, std::string_view why) {
  const std::optional<bool> value = fields.boolean(key, HfFields::Null::absent);
  if (value && *value != expected) fields.fail(key, "{}, {}; expected {}", *value, why, expected);
}

void read_activation(HfFields& fields, const HfFamily& family, HfConfig& config) {
  const std::string_view key = hf_key(family.name, "hidden_act");
  config.hidden_act = family.defaults.hidden_act;
  if (has_hf_key(family, "hidden_act"))
    config.hidden_act = read_either(fields, key, alias_of(family, "hidden_act"), [&](std::string_view name) {
                          return fields.text(name);
                        }).value_or(config.hidden_act);
  if (family.gelu_is_tanh && config.hidden_act == "gelu") {
    config.hidden_act = "gelu_pytorch_tanh";
    config.notes.push_back(
        fmt::format("{}: {} gelu means gelu_pytorch_tanh in {}'s first releases, and is taken as that", fields.place(),
                    key, family.name));
  }
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
void read_token_ids(HfFields& fields, const HfDefaults& defaults, HfConfig& config) {
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
  config.bos_token_id = one("bos_token_id", defaults.bos);
  config.pad_token_id = one("pad_token_id", defaults.pad);
  std::vector<int64_t> eos;
  if (defaults.eos) eos.push_back(*defaults.eos);
  for (const int64_t id : fields.ids("eos_token_id").value_or(eos))
    if (fits("eos_token_id", id) &&
        std::find(config.eos_token_ids.begin(), config.eos_token_ids.end(), id) == config.eos_token_ids.end())
      config.eos_token_ids.push_back(id);
}

void read_dtype(HfFields& fields, HfConfig& config) {
  const std::optional<std::string> now = fields.text("dtype", HfFields::Null::absent),
                                   old = fields.text("torch_dtype", HfFields::Null::absent);
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

// The family of a text model within one that also reads pictures or sound; empty: this is none.
std::string text_part(const Json& json) {
  const auto part = json.find("text_config");
  if (part == json.end() || !part->is_object()) return "";
  const auto type = part->find("model_type");
  return type != part->end() && type->is_string() ? shown_value(*type) : "no model_type";
}

constexpr std::string_view kEncoderHeads[] = {"Model",
                                              "ForMaskedLM",
                                              "ForPreTraining",
                                              "ForSequenceClassification",
                                              "ForTokenClassification",
                                              "ForQuestionAnswering",
                                              "ForMultipleChoice",
                                              "ForNextSentencePrediction"};

void read_architectures(HfFields& fields, HfConfig& config) {
  const bool encoder = !hf_family(config).blocks.causal;
  config.architectures = fields.texts("architectures", HfFields::Null::absent).value_or(std::vector<std::string>{});
  for (const std::string& name : config.architectures) {
    const auto ends = [&](std::string_view ending) { return name.ends_with(ending); };
    const bool language = ends("ForCausalLM") || ends("LMHeadModel") || ends("Model");
    if (encoder) {  // whatever its head: tern reads the layers below
      if (std::ranges::any_of(kEncoderHeads, ends)) continue;
      fields.fail("architectures", "{} is no head that tern knows on an encoder; it reads the encoder of ...{}",
                  shown_value(Json(name)), fmt::join(kEncoderHeads, ", ..."));
    }
    if (!language || ends("DoubleHeadsModel"))
      fields.fail("architectures",
                  "{} is no causal language model; tern reads ...ForCausalLM, ...LMHeadModel and ...Model",
                  shown_value(Json(name)));
  }
}

// Whether tern has coded the weights; other programs' packings are read where they are known.
bool read_quantized(HfFields& fields, HfConfig& c) {
  bool coded = false;
  for (const char* key : {"quantization_config", "compression_config"}) {
    const Json* quantized = fields.take(key);
    if (!quantized || quantized->is_null()) continue;
    if (quantized->is_object())
      if (const auto it = quantized->find("quant_method"); it != quantized->end() && *it == std::string(kCodedMethod)) {
        coded = true;
        continue;
      }
    hf_packing(*quantized, fmt::format("{}: {}", fields.place(), key), c.notes);
  }
  return coded;
}

// Sizes, each with the default of the family.
void read_sizes(HfFields& fields, const HfFamily& family, HfConfig& c) {
  const HfDefaults& d = family.defaults;
  c.vocab_size = needed(fields, family, "vocab_size");
  c.hidden_size = needed(fields, family, "hidden_size");
  c.num_hidden_layers = needed(fields, family, "num_hidden_layers");
  if (c.num_hidden_layers > kMostLayers)
    fields.fail(hf_key(family.name, "num_hidden_layers"), "{}, expected 1 to {}", c.num_hidden_layers, kMostLayers);
  c.num_attention_heads = needed(fields, family, "num_attention_heads");
  if (!d.intermediate_factor)
    c.intermediate_size = needed(fields, family, "intermediate_size");
  else if (has_hf_key(family, "intermediate_size"))
    c.intermediate_size = fields.integer(hf_key(family.name, "intermediate_size"), HfFields::Null::absent)
                              .value_or(*d.intermediate_factor * c.hidden_size);
  else
    c.intermediate_size = *d.intermediate_factor * c.hidden_size;

  c.num_key_value_heads = c.num_attention_heads;
  if (const std::string_view key = hf_key(family.name, "num_key_value_heads"); family.has_kv_heads) {
    const bool said = fields.has(key);
    c.num_key_value_heads = fields.integer(key, HfFields::Null::absent)
                                .value_or(said ? c.num_attention_heads : d.kv_heads.value_or(c.num_attention_heads));
  }
  std::optional<int64_t> head_dim;
  if (family.has_head_dim) {
    const bool said = fields.has("head_dim");
    head_dim = fields.integer("head_dim", HfFields::Null::absent);
    if (!said && d.head_dim) head_dim = d.head_dim;
  } else if (const Json* v = fields.take("head_dim");
             v && !v->is_null() &&
             !(v->is_number_integer() && c.hidden_size % c.num_attention_heads == 0 &&
               v->get<int64_t>() == c.hidden_size / c.num_attention_heads)) {
    fields.fail("head_dim", "{}, but {}'s is {} / {}", shown_value(*v), family.name, hf_key(family.name, "hidden_size"),
                hf_key(family.name, "num_attention_heads"));
  }
  if (!head_dim && c.hidden_size % c.num_attention_heads != 0 && (family.has_head_dim || family.any_width))
    fields.fail("hidden_size", "{} is no multiple of num_attention_heads {}, and no head_dim is given", c.hidden_size,
                c.num_attention_heads);
  c.head_dim = head_dim.value_or(c.hidden_size / c.num_attention_heads);

  if (!d.context) {
    c.max_position_embeddings = needed(fields, family, "max_position_embeddings");
  } else if (const auto length = fields.integer(hf_key(family.name, "max_position_embeddings"))) {
    c.max_position_embeddings = *length;
  } else {
    c.max_position_embeddings = *d.context;
    c.notes.push_back(fmt::format("{}: {} is missing; taken as {}, {}", fields.place(),
                                  hf_key(family.name, "max_position_embeddings"), *d.context,
                                  family.blocks.positions == HfPositions::alibi
                                      ? "the length such models were trained on"
                                      : "as transformers does"));
  }
  if (const std::optional<int64_t> length = fields.integer("max_sequence_length", HfFields::Null::absent);
      length && *length != c.max_position_embeddings)
    c.notes.push_back(fmt::format("{}: max_sequence_length {} is not used; max_position_embeddings {} holds",
                                  fields.place(), *length, c.max_position_embeddings));
}

void read_option(HfFields& fields, const HfOption& option, HfConfig& c) {
  const double absent = option.absent.value_or(0);
  if (const auto* flag = std::get_if<bool HfConfig::*>(&option.to))
    c.*(*flag) = read_either(fields, option.key, option.alias, [&](std::string_view name) {
                   return fields.boolean(name);
                 }).value_or(absent != 0);
  else if (const auto* number = std::get_if<double HfConfig::*>(&option.to))
    c.*(*number) = fields.number(option.key, HfFields::Null::absent).value_or(absent);
  else if (const auto* whole = std::get_if<int64_t HfConfig::*>(&option.to))
    c.*(*whole) = read_either(fields, option.key, option.alias, [&](std::string_view name) {
                    return fields.integer(name, HfFields::Null::absent);
                  }).value_or(static_cast<int64_t>(absent));
  else
    c.*std::get<std::optional<double> HfConfig::*>(option.to) =
        fields.has(option.key) ? fields.number(option.key, HfFields::Null::absent) : option.absent;
}

void read_family(HfFields& fields, const HfFamily& family, HfConfig& c) {
  const HfDefaults& d = family.defaults;
  read_sizes(fields, family, c);
  read_activation(fields, family, c);
  c.norm_eps = d.norm_eps;
  if (has_hf_key(family, "norm_eps"))
    c.norm_eps = read_either(fields, hf_key(family.name, "norm_eps"), alias_of(family, "norm_eps"), [&](auto name) {
                   return fields.number(name);
                 }).value_or(d.norm_eps);
  c.attention_bias = d.attention_bias, c.mlp_bias = d.mlp_bias;
  for (const HfOption& option : family.options) read_option(fields, option, c);
  for (const std::string_view key : family.hidden_again)
    if (const auto again = fields.integer(key, HfFields::Null::absent); again && *again != c.hidden_size)
      fields.fail(key, "{}, but hidden_size is {}; tern does not have a table of another width", *again, c.hidden_size);
  if (family.settle)
    if (const std::string complaint = family.settle(c); !complaint.empty())
      throw Error(ErrorKind::bad_file, "{}: {}", fields.place(), complaint);
  if (!family.blocks.causal)
    if (const auto kind = fields.text("position_embedding_type", HfFields::Null::absent); kind && *kind != "absolute")
      fields.fail("position_embedding_type", "'{}', positions tern does not have; expected absolute", *kind);
  for (const std::string_view key : family.unfollowed)
    if (const Json* value = fields.take(key); value && !value->is_null() && *value != Json(c.hidden_act))
      c.notes.push_back(fmt::format("{}: {} {} is not followed, as transformers does not in a {} model", fields.place(),
                                    key, shown_value(*value), family.name));
  for (const HfFixed& fixed : family.fixed) must_be(fields, fixed.key, fixed.expected, fixed.why);
  if (family.blocks.latent) read_hf_latent(fields, family, c);
  if (hf_blocks(c).positions == HfPositions::rotary)
    c.rope = read_hf_rope(fields, family, c);
  else
    for (const char* key : {"rope_parameters", "rope_scaling", "rope_theta"})
      if (c.alibi) fields.take(key);  // falcon's files have them beside alibi
  c.attention_dropout =
      fields.number(hf_key(family.name, "attention_dropout"), HfFields::Null::absent).value_or(d.attention_dropout);
  c.tie_word_embeddings = fields.boolean("tie_word_embeddings").value_or(d.tied);
  read_hf_layers(fields, family, c);
  read_hf_experts(fields, family, c);
  read_token_ids(fields, d, c);
}

void read_common(HfFields& fields, HfConfig& c) {
  must_be(fields, "is_encoder_decoder", false, "an encoder and a decoder, which tern does not have");
  must_be(fields, "use_mrope", false, "positions in several directions, which tern does not have");
  if (const Json* pruned = fields.take("pruned_heads"); pruned && !pruned->is_null() && !pruned->empty())
    fields.fail("pruned_heads", "names heads taken out, which tern does not have; expected none");
  if (const Json* layers = fields.take("per_layer_config"); layers && !layers->is_null() && !layers->empty())
    fields.fail("per_layer_config", "gives layers different sizes, which tern does not have; expected none");
  if (const Json* map = fields.take("auto_map"); map && !map->is_null())
    c.notes.push_back(fmt::format("{}: auto_map names code beside the model; tern runs its own {} and no foreign code",
                                  fields.place(), c.model_type));
  c.initializer_range = fields.number(hf_key(c.model_type, "initializer_range")).value_or(0.02);
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
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const HfFamily& f : hf_families()) all.emplace_back(f.name);
    return all;
  }();
  return names;
}

std::optional<HfActivation> activation_named(std::string_view name) {
  for (const ActivationName& a : kActivations)
    if (name == a.name) return a.activation;
  return {};
}

std::string_view quantized_remedy(std::string_view method) {
  return method == "fp8" ? "make them bf16 once and give that directory (DeepSeek's repositories bring "
                           "fp8_cast_bf16.py), or use the model they were made from"
                         : "use the model they were made from";
}

std::string_view hf_key(std::string_view model_type, std::string_view field) {
  if (const HfFamily* family = find_hf_family(model_type))
    for (const HfRename& r : family->renamed)
      if (r.field == field && !r.key.empty()) return r.key;
  return field;
}

bool has_hf_key(const HfFamily& family, std::string_view field) {
  for (const HfRename& r : family.renamed)
    if (r.field == field) return !r.key.empty();
  return true;
}

HfConfig parse_hf_config(std::string_view text, std::string_view place) {
  const Json json = parse_json(text, place, {.max_bytes = kMaxConfigBytes});
  HfFields fields(json, std::string(place));
  HfConfig c;
  const std::optional<std::string> type = fields.text("model_type");
  if (!type) fields.fail("model_type", "missing; expected one of {}", fmt::join(supported_families(), ", "));
  c.model_type = *type;
  const HfFamily* family = find_hf_family(*type);
  if (!family) {
    // No nearest name: another model_type is another architecture, not a slip of the pen.
    const std::string part = text_part(json);
    if (!part.empty())
      fields.fail("model_type",
                  "{} is a model of text and other things (text_config: {}), of which tern reads the text part only "
                  "where that is saved by itself (docs/families.md); it reads {}",
                  shown_value(Json(*type)), part, fmt::join(supported_families(), ", "));
    fields.fail("model_type", "{} is not a family tern reads; it reads {}", shown_value(Json(*type)),
                fmt::join(supported_families(), ", "));
  }
  c.coded = read_quantized(fields, c);
  read_family(fields, *family, c);
  read_common(fields, c);
  std::vector<std::string_view> harmless(std::begin(kHarmless), std::end(kHarmless));
  harmless.insert(harmless.end(), family->harmless.begin(), family->harmless.end());
  fields.finish(harmless);
  check_hf_values(c, ErrorKind::bad_file, place);
  return c;
}

HfConfig read_hf_config(const std::string& path) {
  return parse_hf_config(read_text_file(path, kMaxConfigBytes), path);
}

}  // namespace tern
