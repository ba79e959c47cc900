#include "apps/continuation.h"

#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "apps/common.h"
#include "apps/read_text.h"
#include "base/error.h"
#include "base/log.h"
#include "base/options.h"
#include "base/text.h"
#include "base/units.h"
#include "formats/data/text_data.h"
#include "infer/constrain/constraint.h"
#include "infer/constrain/json_schema.h"
#include "infer/load.h"
#include "infer/sample_budget.h"

namespace tern {
namespace {

// What --json-schema or --grammar asks of the text.
std::shared_ptr<Constraint> constraint_of(const Options& options, const ModelDescription& model) {
  if (options.has("json-schema") && options.has("grammar"))
    throw Error(ErrorKind::usage, "--json-schema and --grammar are both given; give one of them");
  if (!options.has("json-schema") && !options.has("grammar")) return nullptr;
  const std::string file = options.text(options.has("grammar") ? "grammar" : "json-schema");
  const std::string gbnf =
      options.has("grammar") ? read_text(file) : gbnf_of_schema(parse_json(read_text(file), file), file);
  return std::make_shared<Constraint>(
      std::make_shared<const TokenTexts>(token_texts(*model.tokenizer, model.spec.vocab)), parse_gbnf(gbnf, file));
}

SamplingSettings sampling_of_samples(const Options& options, const ModelDescription& model) {
  SamplingSettings settings = sampling_settings(options, model.generation);
  if (const int64_t samples = samples_asked(options); samples > 1 && settings.sampling.temperature == 0)
    throw Error(ErrorKind::usage,
                "--samples {}: at temperature 0 they would all be the same text; give --temperature above 0 (0.8, for "
                "example), or leave --samples out",
                samples);
  return settings;
}

}  // namespace

int64_t samples_asked(const Options& options) {
  if (!options.has("samples-rule")) return options.integer("samples");
  const std::string rule = options.text("samples-rule");
  if (options.given("samples"))
    throw Error(ErrorKind::usage, "--samples-rule {}: says how many samples, and so does --samples; give one of them",
                rule);
  std::vector<double> numbers;
  for (const std::string_view part : split(rule, ',')) numbers.push_back(parse_real(trim(part), "--samples-rule"));
  const double ceiling = numbers.size() == 3 ? numbers[2] : 1;
  const bool fine = (numbers.size() == 2 || numbers.size() == 3) && numbers[0] > 0 && numbers[0] < 1 &&
                    numbers[1] > 0 && ceiling > 0 && ceiling <= 1;
  if (!fine)
    throw Error(
        ErrorKind::usage,
        "--samples-rule {}: expected P,GAIN or P,GAIN,CEILING: how often one sample is right (between 0 and 1), the "
        "least gain (above 0), and the most that any number of them reaches (up to 1)",
        make_printable(rule));
  constexpr int64_t kMost = 65536;
  const int64_t samples = samples_worth_their_time({.right = numbers[0], .ceiling = ceiling}, numbers[1]);
  if (samples > kMost)
    throw Error(ErrorKind::usage, "--samples-rule {}: {} samples would be worth it, {} are taken; name a larger gain",
                rule, samples, kMost);
  return samples;
}

std::vector<int32_t> prompt_tokens(const ModelDescription& model, const std::string& prompt) {
  std::vector<int32_t> tokens = model.tokenizer->encode(prompt);
  if (tokens.empty()) {  // nothing to start from: BOS, or what parts documents
    if (const auto start = model.tokenizer->bos() ? model.tokenizer->bos() : model.tokenizer->eos())
      tokens.push_back(*start);
  }
  for (const int32_t id : tokens)
    if (id >= model.spec.vocab)
      throw Error(ErrorKind::usage,
                  "the prompt has token {} ('{}'), the model knows {} ids; this tokenizer belongs to another model", id,
                  model.tokenizer->piece(id), model.spec.vocab);
  return tokens;
}

std::string read_prompt(const Options& options) {
  const auto read = [&](const std::string& path) {
    return read_text(path, {text_room(options), 1 + kEncodeBytesPerByte});
  };
  if (options.given("prompt") && options.given("prompt-file"))
    throw Error(ErrorKind::usage, "--prompt and --prompt-file are both given; give one of them");
  if (!options.given("prompt") && !options.given("prompt-file")) {
    if (const std::string piped = isatty(STDIN_FILENO) == 1 ? "" : read("-"); !piped.empty()) return piped;
    throw Error(ErrorKind::usage,
                "there is no prompt; give --prompt TEXT, --prompt-file FILE (-: standard input), or --prompts FILE "
                "(--prompt '' starts from nothing)");
  }
  return options.has("prompt-file") ? read(options.text("prompt-file")) : options.text("prompt");
}

Continuation read_continuation(const Options& options, const ModelDescription& model, const std::string& prompt) {
  Continuation c;
  c.settings = sampling_of_samples(options, model);
  Request& request = c.request;
  request.prompt = prompt_tokens(model, prompt);
  request.sampling = c.settings.sampling;
  request.num_samples = samples_asked(options);
  c.length_of_file = !options.given("max-tokens") && model.generation.max_new_tokens.has_value();
  request.max_tokens = c.length_of_file ? *model.generation.max_new_tokens : options.integer("max-tokens");
  if (model.generation.max_length && !options.given("max-tokens") && !c.length_of_file)
    log_info("{}: max_length {} (prompt and text together) is not followed; --max-tokens {} is",
             model.dir.generation_config, *model.generation.max_length, request.max_tokens);
  request.constraint = constraint_of(options, model);
  if (!options.flag("ignore-eos")) request.eos = end_tokens(model);
  request.stops = options.list("stop");
  if (std::find(request.stops.begin(), request.stops.end(), "") != request.stops.end())
    throw Error(ErrorKind::usage, "--stop: an empty text stands before every letter; give a text, or leave it out");
  request.stops.insert(request.stops.end(), model.generation.stop_strings.begin(), model.generation.stop_strings.end());
  return c;
}

int64_t longest_context(const Options& options, const ModelDescription& model, int64_t wanted) {
  const int64_t most = model_context(model);
  if (options.has("context") && options.integer("context") > most)
    throw Error(ErrorKind::usage, "--context is {}, the model was made for {} (max_position_embeddings in {})",
                options.integer("context"), most, model.dir.config);
  const int64_t context = options.has("context") ? options.integer("context") : std::min(wanted, most);
  const RopeSpec& rope = model.spec.rope;
  const bool by_length = rope.kind == RopeKind::dynamic || rope.kind == RopeKind::longrope;
  if (by_length && !options.has("context") && context > rope.original_context)
    log_info(
        "beyond {} tokens this model turns positions by the length that is declared: {} here (prompt and "
        "--max-tokens), so another --max-tokens is another text; --context fixes it",
        rope.original_context, context);
  return context;
}

int64_t context_for(const Options& options, const ModelDescription& model, const Continuation& c) {
  const int64_t context = longest_context(options, model, c.prompt_tokens() + c.request.max_tokens);
  if (c.prompt_tokens() >= context)
    throw Error(ErrorKind::usage,
                "the prompt has {} tokens, the context holds {}, which leaves no room to write; shorten the prompt{} "
                "(tern never cuts a prompt)",
                c.prompt_tokens(), context, context < model_context(model) ? " or raise --context" : "");
  return context;
}

ModelDescription model_to_continue(const Options& options) {
  ModelDescription model = described_model(options);
  refuse_encoder(model, "generate");
  tell_notes(model);
  if (!model.tokenizer)
    throw Error(ErrorKind::bad_file,
                "{}: there is no tokenizer; put the model's tokenizer.json (or vocab.json and merges.txt, or "
                "tokenizer.model) beside config.json",
                model.dir.path);
  return model;
}

}  // namespace tern
