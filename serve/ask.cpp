#include "serve/ask.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/units.h"
#include "formats/tokenizer/tokenizer.h"
#include "infer/chat_prompt.h"
#include "serve/api_error.h"
#include "serve/fields.h"
#include "serve/messages.h"
#include "serve/text_form.h"
#include "serve/tools.h"

namespace tern {
namespace {

constexpr int64_t kMostSamples = 128, kMostPrompts = 128, kMostTexts = 2048, kMostLikeliest = 20;
constexpr size_t kMostStops = 16, kMostStopBytes = 256, kMostBiases = 1024;

int read_model(Fields& fields, const ServedModel& model) {
  const std::optional<std::string> name = fields.text("model");
  return name ? adapter_called(model, *name) : kNoAdapter;
}

void check_writes(const ServedModel& model) {
  if (model.writes) return;
  throw ApiError(
      400, fmt::format("model: {} is an encoder and writes no text; it answers /v1/embeddings", quote_json(model.name)),
      "model");
}

int32_t token_id(const Json& json, const std::string& place, int64_t vocab) {
  const int64_t id = json.is_number_integer()
                         ? (json.is_number_unsigned() && json.get<uint64_t>() > INT32_MAX ? -1 : json.get<int64_t>())
                         : -1;
  if (id < 0 || id >= vocab)
    throw ApiError(400, fmt::format("{}: {}, expected a token id from 0 to {}", place, describe_json(json), vocab - 1),
                   place);
  return static_cast<int32_t>(id);
}

std::vector<int32_t> token_ids(const Json& list, const std::string& place, int64_t vocab) {
  std::vector<int32_t> ids;
  for (size_t i = 0; i < list.size(); ++i) ids.push_back(token_id(list[i], fmt::format("{}[{}]", place, i), vocab));
  return ids;
}

void check_vocabulary(const std::vector<int32_t>& ids, const ServedModel& model, const std::string& place) {
  for (const int32_t id : ids)
    if (id >= model.vocab)
      throw ApiError(
          400,
          fmt::format("{}: its text has token {}, the model knows {} ids; the tokenizer belongs to another model",
                      place, id, model.vocab),
          place);
}

std::vector<int32_t> tokens_of_text(const std::string& text, const ServedModel& model, const std::string& place) {
  std::vector<int32_t> ids = model.tokenizer->encode(text);
  if (ids.empty())  // nothing to start from: BOS, or what parts documents
    if (const auto start = model.tokenizer->bos() ? model.tokenizer->bos() : model.tokenizer->eos())
      ids.push_back(*start);
  if (ids.empty())
    throw ApiError(400, fmt::format("{}: has no tokens, and the model has none to start from", place), place);
  check_vocabulary(ids, model, place);
  return ids;
}

bool is_ids(const Json& json) {
  return json.is_array() && !json.empty() && std::ranges::all_of(json, [](const Json& x) { return x.is_number(); });
}

// A text, ids, a list of texts, or a list of lists of ids.
std::vector<std::pair<std::string, const Json*>> texts_or_ids(Fields& fields, std::string_view name, int64_t most) {
  const Json* json = fields.value(name);
  const std::string place = fields.place_of(name);
  if (!json) fields.fail(name, "is missing");
  if (json->is_string() || is_ids(*json)) return {{place, json}};
  if (!json->is_array() || json->empty())
    fields.fail(name, fmt::format("{}, expected a text, token ids, or a list of these",
                                  json->is_array() ? "an empty list" : describe_json(*json)));
  if (static_cast<int64_t>(json->size()) > most)
    fields.fail(name, fmt::format("{} of them, expected at most {}", json->size(), most));
  std::vector<std::pair<std::string, const Json*>> parts;
  for (size_t i = 0; i < json->size(); ++i) {
    const Json& part = (*json)[i];
    const std::string at = fmt::format("{}[{}]", place, i);
    if (!part.is_string() && !is_ids(part))
      throw ApiError(
          400,
          fmt::format("{}: {}, expected a text or token ids", at, part.is_array() ? "a list" : describe_json(part)),
          at);
    parts.emplace_back(at, &part);
  }
  return parts;
}

std::vector<std::string> read_stops(Fields& fields) {
  const Json* json = fields.value("stop");
  std::vector<std::string> stops;
  if (!json) return stops;
  const bool many = json->is_array();
  if (many && json->size() > kMostStops)
    fields.fail("stop", fmt::format("{} of them, expected at most {}", json->size(), kMostStops));
  for (size_t i = 0; i < (many ? json->size() : 1); ++i) {
    const Json& one = many ? (*json)[i] : *json;
    const std::string name = many ? fmt::format("stop[{}]", i) : "stop";
    if (!one.is_string()) fields.fail(name, fmt::format("{}, expected a text", describe_json(one)));
    stops.push_back(one.get<std::string>());
    if (stops.back().empty()) fields.fail(name, "is empty and stands before every letter; leave it out");
    if (stops.back().size() > kMostStopBytes)
      fields.fail(name, fmt::format("has {} bytes, expected at most {}", stops.back().size(), kMostStopBytes));
  }
  return stops;
}

std::vector<std::pair<int32_t, double>> read_biases(Fields& fields, const ServedModel& model) {
  std::vector<std::pair<int32_t, double>> biases;
  const Json* json = fields.value("logit_bias");
  if (!json) return biases;
  if (!json->is_object())
    fields.fail("logit_bias", fmt::format("{}, expected an object of token ids and numbers", describe_json(*json)));
  if (json->size() > kMostBiases)
    fields.fail("logit_bias", fmt::format("{} tokens, expected at most {}", json->size(), kMostBiases));
  for (const auto& [key, value] : json->items()) {
    int64_t id = -1;
    if (!key.empty() && key.size() < 11 && key.find_first_not_of("0123456789") == std::string::npos)
      id = std::stoll(key);
    if (id < 0 || id >= model.vocab)
      fields.fail("logit_bias",
                  fmt::format("{} is no token id; they go from 0 to {}", describe_json(key), model.vocab - 1));
    const double bias = value.is_number() ? value.get<double>() : 1e300;
    if (!(bias >= -100 && bias <= 100))
      fields.fail(fmt::format("logit_bias.{}", id),
                  fmt::format("{}, expected a number from -100 to 100", describe_json(value)));
    biases.emplace_back(static_cast<int32_t>(id), bias);
  }
  return biases;
}

void read_stream(Fields& fields, Asked& asked) {
  asked.stream = fields.boolean("stream").value_or(false);
  const Json* json = fields.value("stream_options");
  if (!json) return;
  if (!asked.stream) fields.fail("stream_options", "is given without \"stream\": true");
  Fields options(*json, "stream_options");
  asked.usage = options.boolean("include_usage").value_or(false);
  asked.usage_in_each = options.boolean("continuous_usage_stats").value_or(false);
  options.ignore("include_obfuscation");
  options.done();
  if (asked.usage_in_each && !asked.usage) options.fail("continuous_usage_stats", "is given without include_usage");
}

// What chats and completions have in common, but for the prompt.
Request read_settings(Fields& fields, const ServedModel& model, Asked& asked, uint64_t fresh_seed) {
  Request r;
  r.sampling = model.sampling;
  SamplingOptions& s = r.sampling;
  s.temperature = fields.real("temperature", 0, 2).value_or(s.temperature);
  s.top_p = fields.real("top_p", 0, 1, true).value_or(s.top_p);
  if (const auto k = fields.integer("top_k", -1, INT32_MAX)) s.top_k = std::max<int64_t>(*k, 0);
  s.min_p = fields.real("min_p", 0, 1).value_or(s.min_p);
  s.repetition_penalty = fields.real("repetition_penalty", 0, 100, true).value_or(s.repetition_penalty);
  s.presence_penalty = fields.real("presence_penalty", -2, 2).value_or(0);
  s.frequency_penalty = fields.real("frequency_penalty", -2, 2).value_or(0);
  s.logit_bias = read_biases(fields, model);
  const auto seed = fields.integer("seed", INT64_MIN, INT64_MAX);
  s.seed = asked.seed = seed ? static_cast<uint64_t>(*seed) : fresh_seed;
  r.num_samples = fields.integer("n", 1, kMostSamples).value_or(1);
  r.stops = read_stops(fields);
  r.stops.insert(r.stops.end(), model.stops.begin(), model.stops.end());
  if (!fields.boolean("ignore_eos").value_or(false)) {
    r.eos = model.ends;
    if (asked.chat) r.eos.insert(r.eos.end(), model.turn_ends.begin(), model.turn_ends.end());
  }
  asked.token_ids = fields.boolean("return_token_ids").value_or(false);
  read_stream(fields, asked);
  r.constraint = read_text_form(fields, model);
  for (const char* name : {"user", "safety_identifier", "prompt_cache_key", "service_tier", "store", "metadata"})
    fields.ignore(name);
  return r;
}

// How many tokens may follow `prompt`; `asked` of `field`, or what `usual` says.
int64_t room_for(const std::vector<int32_t>& prompt, const ServedModel& model, std::optional<int64_t> wanted,
                 std::string_view field, std::string_view prompt_field, std::optional<int64_t> usual) {
  const auto length = static_cast<int64_t>(prompt.size());
  if (length >= model.context)
    throw ApiError(
        400,
        fmt::format(
            "{}: has {} tokens, the context holds {}, which leaves no room to write; shorten it (nothing is cut)",
            prompt_field, length, model.context),
        std::string(prompt_field), "context_length_exceeded");
  const int64_t room = model.context - length;
  if (wanted && *wanted > room)
    throw ApiError(400,
                   fmt::format("{}: {} tokens behind the {} of {}, the context holds {}; ask for {} at most", field,
                               *wanted, length, prompt_field, model.context, room),
                   std::string(field), "context_length_exceeded");
  return wanted.value_or(std::min(room, usual.value_or(room)));
}

}  // namespace

Asked read_completion(const Json& body, const ServedModel& model, uint64_t fresh_seed) {
  Fields fields(body);
  const int adapter = read_model(fields, model);
  check_writes(model);
  Asked asked;
  Request settings = read_settings(fields, model, asked, fresh_seed);
  settings.adapter = adapter;
  const auto parts = texts_or_ids(fields, "prompt", kMostPrompts);
  const auto most = fields.integer("max_tokens", 1, INT32_MAX);
  const bool echo = fields.boolean("echo").value_or(false);
  const auto likeliest = fields.integer("logprobs", 0, kMostLikeliest);
  asked.log_probabilities = likeliest.has_value();
  if (echo && likeliest)
    fields.fail("logprobs", "is not supported together with echo: log-probabilities of a prompt are not there yet");
  if (const auto best = fields.integer("best_of", 1, kMostSamples); best && *best != settings.num_samples) {
    if (*best < settings.num_samples)
      fields.fail("best_of", fmt::format("{} is less than n, which is {}", *best, settings.num_samples));
    if (asked.stream)
      fields.fail("best_of", fmt::format("{} of which {} are kept cannot be streamed: the best are known at their end",
                                         *best, settings.num_samples));
    asked.kept = std::exchange(settings.num_samples, *best);
  }
  if (const auto suffix = fields.text("suffix"); suffix && !suffix->empty())
    fields.fail("suffix", "is not supported: texts are continued at their end only");
  fields.done();
  for (const auto& [place, json] : parts) {
    Request r = settings;
    r.prompt = json->is_string() ? tokens_of_text(json->get<std::string>(), model, place)
                                 : token_ids(*json, place, model.vocab);
    r.max_tokens = room_for(r.prompt, model, most, "max_tokens", place, 16);
    r.num_likeliest = likeliest.value_or(0);
    if (echo) asked.echo.push_back(json->is_string() ? json->get<std::string>() : model.tokenizer->decode(r.prompt));
    asked.prompts.push_back(std::move(r));
  }
  return asked;
}

Asked read_chat(const Json& body, const ServedModel& model, uint64_t fresh_seed) {
  Fields fields(body);
  const int adapter = read_model(fields, model);
  check_writes(model);
  if (!model.chat) throw ApiError(400, fmt::format("model: {}", model.why_no_chat), "model");
  Asked asked;
  asked.chat = true;
  Request r = read_settings(fields, model, asked, fresh_seed);
  r.adapter = adapter;
  const Json messages = read_messages(fields, model);
  const AskedTools tools = read_tools(fields, model, r);
  const auto old_most = fields.integer("max_tokens", 1, INT32_MAX),
             most = fields.integer("max_completion_tokens", 1, INT32_MAX);
  if (old_most && most && *old_most != *most)
    fields.fail("max_tokens", fmt::format("{}, and max_completion_tokens is {}; give one of them", *old_most, *most));
  asked.log_probabilities = fields.boolean("logprobs").value_or(false);
  const auto likeliest = fields.integer("top_logprobs", 0, kMostLikeliest);
  if (likeliest && !asked.log_probabilities) fields.fail("top_logprobs", "is given without \"logprobs\": true");
  r.num_likeliest = likeliest.value_or(0);
  const Json* variables = fields.value("chat_template_kwargs");
  if (variables && !variables->is_object())
    fields.fail("chat_template_kwargs", fmt::format("{}, expected an object", describe_json(*variables)));
  if (const Json* modalities = fields.value("modalities"); modalities && *modalities != Json::array({"text"}))
    fields.fail("modalities", "is not supported: this model writes texts only");
  fields.ignore("prediction");
  fields.refuse("reasoning_effort", "what the model's template knows goes into chat_template_kwargs");
  fields.done();
  try {
    r.prompt = model.chat->tokens(messages, variables, tools.shown);
  } catch (const Error& error) { throw ApiError(400, fmt::format("messages: {}", error.what()), "messages"); }
  if (r.prompt.empty()) fields.fail("messages", "the model's template makes no tokens of them");
  check_vocabulary(r.prompt, model, "messages");
  r.max_tokens =
      room_for(r.prompt, model, most ? most : old_most, most ? "max_completion_tokens" : "max_tokens", "messages", {});
  asked.tools = tools.names;
  asked.prompts.push_back(std::move(r));
  return asked;
}

AskedVectors read_embeddings(const Json& body, const ServedModel& model) {
  Fields fields(body);
  if (const int adapter = read_model(fields, model); adapter != kNoAdapter)
    fields.fail("model", fmt::format("{} is an adapter, and vectors are the model's own; ask {} for them",
                                     quote_json(model.name_of(adapter)), quote_json(model.name)));
  if (model.longest_text == 0) throw ApiError(400, fmt::format("model: {}", model.why_no_embeddings), "model");
  AskedVectors asked;
  const auto parts = texts_or_ids(fields, "input", kMostTexts);
  const std::string format = fields.text("encoding_format").value_or("float");
  if (format != "float" && format != "base64")
    fields.fail("encoding_format", fmt::format("{}, expected \"float\" or \"base64\"", describe_json(format)));
  asked.base64 = format == "base64";
  if (const auto width = fields.integer("dimensions", 1, INT32_MAX); width && *width != model.width)
    fields.fail("dimensions",
                fmt::format("{} is not supported: a vector of this model has {} numbers", *width, model.width));
  fields.ignore("user");
  fields.done();
  for (const auto& [place, json] : parts) {
    std::vector<int32_t> ids;
    if (json->is_string()) {
      ids = model.tokenizer->encode(model.text_prefix + json->get<std::string>());
      check_vocabulary(ids, model, place);
    } else {
      ids = token_ids(*json, place, model.vocab);
    }
    if (ids.empty()) throw ApiError(400, fmt::format("{}: has no tokens; nothing to make a vector of", place), place);
    if (static_cast<int64_t>(ids.size()) > model.longest_text)
      throw ApiError(400,
                     fmt::format("{}: has {} tokens, this server takes {} (nothing is cut)", place, ids.size(),
                                 model.longest_text),
                     place, "context_length_exceeded");
    asked.num_tokens += static_cast<int64_t>(ids.size());
    asked.texts.push_back(std::move(ids));
  }
  return asked;
}

Json tokenize_reply(const Json& body, const ServedModel& model) {
  Fields fields(body);
  read_model(fields, model);
  const auto prompt = fields.text("prompt");
  const bool special = fields.boolean("add_special_tokens").value_or(true);
  const bool pieces = fields.boolean("return_token_strs").value_or(false);
  const Json* messages = fields.value("messages");
  if (prompt && messages) fields.fail("messages", "is given together with prompt; give one of them");
  if (!prompt && !messages) fields.fail("prompt", "is missing");
  std::vector<int32_t> ids;
  if (prompt) {
    ids = model.tokenizer->encode(*prompt, {.add_special = special});
  } else {
    if (!model.chat) throw ApiError(400, fmt::format("model: {}", model.why_no_chat), "model");
    const Json list = read_messages(fields, model);
    try {
      ids = model.chat->tokens(list);
    } catch (const Error& error) { throw ApiError(400, fmt::format("messages: {}", error.what()), "messages"); }
  }
  fields.done();
  Json reply = {{"count", ids.size()}, {"max_model_len", model.context}, {"tokens", ids}};
  if (pieces) {
    reply["token_strs"] = Json::array();
    for (const int32_t id : ids) reply["token_strs"].push_back(model.tokenizer->piece(id));
  }
  return reply;
}

Json detokenize_reply(const Json& body, const ServedModel& model) {
  Fields fields(body);
  read_model(fields, model);
  const Json* tokens = fields.value("tokens");
  if (!tokens) fields.fail("tokens", "is missing");
  if (!tokens->is_array())
    fields.fail("tokens", fmt::format("{}, expected a list of token ids", describe_json(*tokens)));
  const std::vector<int32_t> ids = token_ids(*tokens, "tokens", std::max(model.vocab, model.tokenizer->vocab_size()));
  fields.done();
  return {{"prompt", model.tokenizer->decode(ids)}};
}

}  // namespace tern
