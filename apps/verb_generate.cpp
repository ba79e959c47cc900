// tern generate MODEL: continue a text. Text to standard output as it comes, talk to standard error.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "apps/common.h"
#include "apps/inference_weights.h"
#include "apps/sampling_settings.h"
#include "apps/signals.h"
#include "apps/speculation_options.h"
#include "apps/verbs.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/options.h"
#include "base/system.h"
#include "base/units.h"
#include "infer/constrain/constraint.h"
#include "infer/constrain/json_schema.h"
#include "infer/load.h"
#include "infer/run.h"
#include "kernels/dispatch.h"

namespace tern {
namespace {

std::string read_prompt(const Options& options) {
  if (options.given("prompt") && options.given("prompt-file"))
    throw Error(ErrorKind::usage, "--prompt and --prompt-file are both given; give one of them");
  if (!options.given("prompt") && !options.given("prompt-file"))
    throw Error(ErrorKind::usage,
                "there is no prompt; give --prompt TEXT, --prompt-file FILE, or --prompt-file - for standard input "
                "(--prompt '' starts from nothing)");
  return options.has("prompt-file") ? read_text(options.text("prompt-file")) : options.text("prompt");
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

// The longest sequence: --context, else prompt and --max-tokens, within what the model allows.
int64_t choose_context(const Options& options, const ModelDescription& model, int64_t wanted) {
  const int64_t most = model_context(model);
  if (!options.has("context")) return std::min(wanted, most);
  const int64_t context = options.integer("context");
  if (context > most)
    throw Error(ErrorKind::usage, "--context is {}, the model was made for {} (max_position_embeddings in {})", context,
                most, model.dir.config);
  return context;
}

Json sample_json(const Sample& sample) {
  Json json = {{"text", sample.text}, {"token_ids", sample.token_ids}, {"finish_reason", name_of(sample.reason)}};
  if (!sample.stop.empty()) json["stop"] = sample.stop;
  json["mean_log_probability"] =
      sample.token_ids.empty() ? 0.0 : sample.sum_log_probability / static_cast<double>(sample.token_ids.size());
  json["preemptions"] = sample.num_preemptions;
  return json;
}

std::string describe_end(const Sample& sample, int64_t context) {
  switch (sample.reason) {
    case FinishReason::eos:
      return "ended by itself";
    case FinishReason::stop:
      return fmt::format("stopped at {}", quote_json(sample.stop));
    case FinishReason::length:
      return "reached --max-tokens";
    case FinishReason::context:
      return fmt::format("filled the context of {} tokens", context);
    case FinishReason::cancelled:
      return "stopped on request";
    case FinishReason::failed:  // its error was thrown
    case FinishReason::none:
      break;
  }
  return "";
}

double rate(int64_t tokens, double seconds) { return seconds > 0 ? static_cast<double>(tokens) / seconds : 0; }

}  // namespace

int run_generate(const Options& options) {
  Clock& clock = real_clock();
  const bool json = options.flag("json");
  const int threads = apply_threads(options);
  const std::string prompt = read_prompt(options);
  tell_invalid_utf8(prompt);

  // Judge before allocating.
  const int64_t start_ns = clock.now_ns();
  const ModelDescription model = described_model(options);
  refuse_encoder(model, "generate");
  tell_notes(model);
  if (!model.tokenizer)
    throw Error(ErrorKind::bad_file,
                "{}: there is no tokenizer; put the model's tokenizer.json (or vocab.json and merges.txt, or "
                "tokenizer.model) beside config.json",
                model.dir.path);
  const SamplingSettings settings = sampling_settings(options, model.generation);
  if (options.integer("samples") > 1 && settings.sampling.temperature == 0)
    throw Error(ErrorKind::usage,
                "--samples {}: at temperature 0 they would all be the same text; give --temperature above 0 (0.8, for "
                "example), or leave --samples out",
                options.integer("samples"));

  Request request;
  request.prompt = prompt_tokens(model, prompt);
  request.sampling = settings.sampling;
  request.num_samples = options.integer("samples");
  const bool length_of_file = !options.given("max-tokens") && model.generation.max_new_tokens.has_value();
  request.max_tokens = length_of_file ? *model.generation.max_new_tokens : options.integer("max-tokens");
  if (model.generation.max_length && !options.given("max-tokens") && !length_of_file)
    log_info("{}: max_length {} (prompt and text together) is not followed; --max-tokens {} is",
             model.dir.generation_config, *model.generation.max_length, request.max_tokens);
  request.constraint = constraint_of(options, model);
  if (!options.flag("ignore-eos")) request.eos = end_tokens(model);
  request.stops = options.list("stop");
  if (std::find(request.stops.begin(), request.stops.end(), "") != request.stops.end())
    throw Error(ErrorKind::usage, "--stop: an empty text stands before every letter; give a text, or leave it out");
  request.stops.insert(request.stops.end(), model.generation.stop_strings.begin(), model.generation.stop_strings.end());

  const auto prompt_length = static_cast<int64_t>(request.prompt.size());
  EngineLimits limits;
  limits.context = choose_context(options, model, prompt_length + request.max_tokens);
  const RopeSpec& rope_spec = model.spec.rope;
  const bool by_length = rope_spec.kind == RopeKind::dynamic || rope_spec.kind == RopeKind::longrope;
  if (by_length && !options.has("context") && limits.context > rope_spec.original_context)
    log_info(
        "beyond {} tokens this model turns positions by the length that is declared: {} here (prompt and "
        "--max-tokens), so another --max-tokens is another text; --context fixes it",
        rope_spec.original_context, limits.context);
  limits.scheduler.max_running = request.num_samples;
  if (prompt_length >= limits.context)
    throw Error(ErrorKind::usage,
                "the prompt has {} tokens, the context holds {}, which leaves no room to write; shorten the prompt{} "
                "(tern never cuts a prompt)",
                prompt_length, limits.context, limits.context < model_context(model) ? " or raise --context" : "");
  InferenceNeeds needs{.context = limits.context,
                       .sequences = request.num_samples,
                       .page_tokens = options.integer("page"),
                       .iteration_tokens = 1,
                       .logit_rows = request.num_samples,
                       .kv = kv_option(options, model.dtype)};
  const SpeculationChoice speculation(options, request.num_samples);
  limits.speculation = speculation.settings();
  const MemoryBudget budget = memory_budget(options);
  const int64_t program = program_bytes();
  const int64_t chunk = std::clamp<int64_t>(prompt_length, 1, options.integer("chunk"));  // memory for no more
  limits.scheduler.chunk = choose_chunk(options, model, needs, budget, prompt_length, request.max_tokens, chunk);
  limits.scheduler.token_budget = limits.scheduler.chunk + request.num_samples;
  needs.iteration_tokens = iteration_tokens(prompt_length, limits.scheduler.chunk, request.num_samples);
  speculation.add_to(needs, request.num_samples);
  const WeightsChoice choice = choose_weights(options, model, needs, budget);
  const InferenceFit& fit = choice.fit;

  Arena arena;
  const InferenceWeights loaded(options, model, choice, request.max_tokens * request.num_samples, arena);
  const ModelWeights& weights = loaded.weights();
  const RopeTable rope =
      model.spec.rope.kind == RopeKind::none ? RopeTable{} : rope_table(model.spec, limits.context, limits.context);
  KvPool pool(kv_shape(model.spec, model.dtype, needs), kv_pages(needs), arena);
  const double load_s = seconds_between(start_ns, clock.now_ns());
  if (model.tokenizer->has_chat_template())
    log_info(
        "this is a chat model; the prompt is continued as plain text, its chat template is not applied ({} chat "
        "applies it)",
        program_name());

  const bool stream = !json && request.num_samples == 1;
  const StopSignals signals;
  RunTimings timings;
  Engine engine(pool,
                model_executor(model.spec, weights, model.spec.rope.kind == RopeKind::none ? nullptr : &rope, arena),
                &*model.tokenizer, limits, clock);
  const std::vector<Sample> samples = naming_bad_weights(model, [&] {
    return run_request(
        engine, request,
        [&](int64_t, std::string_view text) {
          if (stream) print_out(text);
          return true;
        },
        [] { return stop_requested(); }, &timings);
  });

  if (json) {
    Json out = {{"model", options.positional("MODEL")}, {"prompt_tokens", prompt_length}, {"samples", Json::array()}};
    for (const Sample& sample : samples) out["samples"].push_back(sample_json(sample));
    out["text"] = samples[0].text;
    out["token_ids"] = samples[0].token_ids;
    out["finish_reason"] = name_of(samples[0].reason);
    out["settings"] = Json::object();
    for (const SettingOrigin& o : settings.origins)
      out["settings"][o.name] = {{"value", o.value}, {"origin", o.origin}};
    out["settings"]["max_tokens"] = {{"value", request.max_tokens},
                                     {"origin", length_of_file                ? "generation_config.json"
                                                : options.given("max-tokens") ? options.value("max-tokens").where
                                                                              : "default"}};
    out["settings"]["seed"] = {{"value", request.sampling.seed},
                               {"origin", options.given("seed") ? options.value("seed").where : "default"}};
    out["settings"]["dtype"] = name_of(model.dtype);
    out["settings"]["kv_dtype"] = name_of(pool.shape().type);
    out["settings"]["context"] = limits.context;
    out["settings"]["threads"] = threads;
    out["settings"]["instruction_set"] = name_of(active_isa());
    out["settings"]["weights"] = loaded.name();
    out["settings"]["arithmetic"] = options.text("arithmetic");
    out["timings"] = {{"load_s", load_s},
                      {"first_token_s", timings.first_token_s},
                      {"prefill_s", timings.prefill_s},
                      {"decode_s", timings.decode_s},
                      {"prefill_tokens", timings.prompt_tokens},
                      {"generated_tokens", timings.generated_tokens},
                      {"prefill_tokens_per_s", rate(timings.prompt_tokens, timings.prefill_s)},
                      {"decode_tokens_per_s", rate(timings.decode_tokens, timings.decode_s)}};
    if (!timings.decode_iterations_s.empty()) {
      std::vector<double> each = timings.decode_iterations_s;
      std::sort(each.begin(), each.end());
      const auto at = [&](size_t percent) { return each[(each.size() - 1) * percent / 100]; };
      out["timings"]["decode_step_s"] = {{"least", at(0)}, {"median", at(50)}, {"p99", at(99)}, {"most", at(100)}};
    }
    out["memory"] = {{"peak_bytes", arena.peak_total()},
                     {"predicted_bytes", fit.tensors()},
                     {"program_bytes", program + fit.sampler + fit.beside},
                     {"peak_resident_bytes", read_process_memory().peak_resident_bytes}};
    if (engine.speculation()) out["speculation"] = speculation_json(*engine.speculation());
    if (loaded.streams()) out["streaming"] = loaded.json(timings);
    print_json(out);
  } else if (stream) {
    print_out("\n");
    log_info("{} tokens, {}; first after {}, then {:.1f} tok/s", samples[0].token_ids.size(),
             describe_end(samples[0], limits.context), format_seconds(load_s + timings.first_token_s),
             rate(timings.decode_tokens, timings.decode_s));
    if (const std::string words = speculation_words(engine.speculation()); !words.empty()) log_info("{}", words);
    if (const std::string reached = loaded.reached(timings); !reached.empty()) log_info("{}", reached);
  } else {
    for (size_t i = 0; i < samples.size(); ++i)
      print_out(fmt::format("--- sample {} of {} ({})\n{}\n", i + 1, samples.size(),
                            describe_end(samples[i], limits.context), samples[i].text));
  }
  const bool cancelled =
      std::any_of(samples.begin(), samples.end(), [](const Sample& s) { return s.reason == FinishReason::cancelled; });
  return cancelled ? 128 + stop_signal() : 0;
}

}  // namespace tern
