#include "formats/hf/generation_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "formats/hf/fields.h"
#include "formats/small_file.h"

// Source: the keys of transformers 5.23's GenerationConfig and of its predecessors' files.

namespace tern {
namespace {

constexpr size_t kMaxBytes = 4 << 20;

// Bookkeeping, run-time switches, outputs asked for, settings of beam search or assisted decoding that do nothing
// alone.
constexpr std::string_view kHarmlessInGeneration[] = {"_commit_hash",
                                                      "_from_model_config",
                                                      "assistant_confidence_threshold",
                                                      "assistant_early_exit",
                                                      "assistant_ensemble_weight",
                                                      "assistant_lookbehind",
                                                      "cache_config",
                                                      "cache_implementation",
                                                      "compile_config",
                                                      "continuous_batching_config",
                                                      "decoder_start_token_id",
                                                      "disable_compile",
                                                      "early_stopping",
                                                      "encoder_no_repeat_ngram_size",
                                                      "is_assistant",
                                                      "length_penalty",
                                                      "low_memory",
                                                      "max_cache_len",
                                                      "max_matching_ngram_size",
                                                      "num_assistant_tokens",
                                                      "num_assistant_tokens_schedule",
                                                      "output_attentions",
                                                      "output_hidden_states",
                                                      "output_logits",
                                                      "output_scores",
                                                      "prefill_chunk_size",
                                                      "prompt_lookup_num_tokens",
                                                      "remove_invalid_values",
                                                      "renormalize_logits",
                                                      "return_dict_in_generate",
                                                      "speculation_type",
                                                      "target_lookbehind",
                                                      "transformers_version",
                                                      "use_cache"};

/// Settings that would change the text and that tern does not have: fine at the value that means "off".
struct Unsupported {
  std::string_view key;
  double off;  // this number, null, false or an empty list means off
};
constexpr Unsupported kUnsupported[] = {{"bad_words_ids", 0},
                                        {"begin_suppress_tokens", 0},
                                        {"constraints", 0},
                                        {"diversity_penalty", 0},
                                        {"dola_layers", 0},
                                        {"encoder_repetition_penalty", 1},
                                        {"epsilon_cutoff", 0},
                                        {"eta_cutoff", 0},
                                        {"exponential_decay_length_penalty", 0},
                                        {"force_words_ids", 0},
                                        {"forced_bos_token_id", -1},
                                        {"forced_eos_token_id", -1},
                                        {"guidance_scale", 1},
                                        {"max_time", 0},
                                        {"min_length", 0},
                                        {"min_new_tokens", 0},
                                        {"no_repeat_ngram_size", 0},
                                        {"num_beam_groups", 1},
                                        {"num_beams", 1},
                                        {"penalty_alpha", 0},
                                        {"sequence_bias", 0},
                                        {"suppress_tokens", 0},
                                        {"token_healing", 0},
                                        {"top_h", 0},
                                        {"typical_p", 1},
                                        {"use_mtp", 0},
                                        {"watermarking_config", 0}};

bool is_off(const Json& value, double off) {
  if (value.is_null()) return true;
  if (value.is_boolean()) return !value.get<bool>();
  if (value.is_number()) return value.get<double>() == off;
  return (value.is_array() || value.is_object()) && value.empty();
}

std::optional<double> number_between(HfFields& fields, std::string_view key, double min, double max,
                                     bool above_min = false) {
  const std::optional<double> value = fields.number(key, HfFields::Null::absent);
  if (value && !(std::isfinite(*value) && (above_min ? *value > min : *value >= min) && *value <= max))
    fields.fail(key, "{}, expected {} {}{}", *value, above_min ? "more than" : "at least", min,
                max < 1e300 ? fmt::format(" and at most {}", max) : "");
  return value;
}

std::optional<int64_t> whole_at_least(HfFields& fields, std::string_view key, int64_t min) {
  const std::optional<int64_t> value = fields.integer(key, HfFields::Null::absent);
  if (value && (*value < min || *value > INT32_MAX)) fields.fail(key, "{}, expected {} to 2147483647", *value, min);
  return value;
}

std::vector<int64_t> token_ids(HfFields& fields, GenerationConfig& config, std::string_view key) {
  std::vector<int64_t> ids;
  for (const int64_t id : fields.ids(key).value_or(std::vector<int64_t>{})) {
    if (id < 0) {
      config.notes.push_back(fmt::format("{}: {} {} is no token id; taken as none", fields.place(), key, id));
    } else if (std::find(ids.begin(), ids.end(), id) == ids.end()) {
      ids.push_back(id);
    }
  }
  return ids;
}

std::optional<int64_t> token_id(HfFields& fields, GenerationConfig& config, std::string_view key) {
  const std::vector<int64_t> ids = token_ids(fields, config, key);
  if (ids.size() > 1) fields.fail(key, "a list of {}, expected one token id or null", ids.size());
  return ids.empty() ? std::nullopt : std::optional(ids[0]);
}

}  // namespace

GenerationConfig parse_generation_config(std::string_view text, std::string_view place) {
  const Json json = parse_json(text, place, {.max_bytes = kMaxBytes});
  HfFields fields(json, std::string(place));
  GenerationConfig g;
  g.do_sample = fields.boolean("do_sample", HfFields::Null::absent);
  g.temperature = number_between(fields, "temperature", 0, 1e300);
  g.top_k = whole_at_least(fields, "top_k", 0);
  g.top_p = number_between(fields, "top_p", 0, 1);
  g.min_p = number_between(fields, "min_p", 0, 1);
  g.repetition_penalty = number_between(fields, "repetition_penalty", 0, 1e300, true);
  g.max_new_tokens = whole_at_least(fields, "max_new_tokens", 1);
  g.max_length = whole_at_least(fields, "max_length", 1);
  g.bos_token_id = token_id(fields, g, "bos_token_id");
  g.pad_token_id = token_id(fields, g, "pad_token_id");
  g.eos_token_ids = token_ids(fields, g, "eos_token_id");
  g.stop_strings = fields.texts("stop_strings", HfFields::Null::absent).value_or(std::vector<std::string>{});
  for (const std::string& stop : g.stop_strings)
    if (stop.empty()) fields.fail("stop_strings", "holds an empty string, expected text to stop at");
  if (const std::optional<int64_t> n = whole_at_least(fields, "num_return_sequences", 1); n && *n != 1)
    g.notes.push_back(fmt::format(
        "{}: num_return_sequences {} is not followed; ask for several samples on the command line", place, *n));
  for (const Unsupported& u : kUnsupported)
    if (const Json* value = fields.take(u.key); value && !is_off(*value, u.off))
      fields.fail(u.key, "{}, which tern does not have; remove it to generate without", shown_value(*value));
  fields.finish(kHarmlessInGeneration);
  return g;
}

GenerationConfig read_generation_config(const std::string& path) {
  return parse_generation_config(read_text_file(path, kMaxBytes), path);
}

std::string generation_config_json(const GenerationConfig& g) {
  nlohmann::json j = nlohmann::json::object();
  const auto put = [&](const char* key, const auto& value) {
    if (!value) return;
    j[key] = *value;
    // nlohmann would write null for these, and the reader would take it for "not set".
    if (j[key].is_number_float() && !std::isfinite(j[key].template get<double>()))
      throw Error(ErrorKind::usage, "generation config: {}: {}, expected a finite number", key,
                  j[key].template get<double>());
  };
  put("do_sample", g.do_sample);
  put("temperature", g.temperature);
  put("top_k", g.top_k);
  put("top_p", g.top_p);
  put("min_p", g.min_p);
  put("repetition_penalty", g.repetition_penalty);
  put("max_new_tokens", g.max_new_tokens);
  put("max_length", g.max_length);
  put("bos_token_id", g.bos_token_id);
  put("pad_token_id", g.pad_token_id);
  if (g.eos_token_ids.size() == 1) j["eos_token_id"] = g.eos_token_ids[0];
  if (g.eos_token_ids.size() > 1) j["eos_token_id"] = g.eos_token_ids;
  if (!g.stop_strings.empty()) j["stop_strings"] = g.stop_strings;
  std::string text;
  try {
    text = j.dump(2, ' ', true) + "\n";
    parse_generation_config(text,
                            "generation config");  // the reader's checks, so that nobody writes what nobody can read
  } catch (const Error& error) {
    throw Error(ErrorKind::usage, "{}", error.what());
  } catch (const nlohmann::json::exception& error) {
    throw Error(ErrorKind::usage, "generation config: a stop string is not UTF-8 ({})", error.what());
  }
  return text;
}

}  // namespace tern
