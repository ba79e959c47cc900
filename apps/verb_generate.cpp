// tern generate MODEL: continue a text. Text to standard output as it comes, talk to standard error.
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <nlohmann/json.hpp>
#include <optional>

#include "apps/common.h"
#include "apps/continuation.h"
#include "apps/generate_trace.h"
#include "apps/inference_weights.h"
#include "apps/kv_place.h"
#include "apps/model_engine.h"
#include "apps/read_text.h"
#include "apps/signals.h"
#include "apps/speculation_options.h"
#include "apps/stream_window.h"
#include "apps/verbs.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/options.h"
#include "base/process_memory.h"
#include "base/units.h"
#include "infer/best_sample.h"
#include "infer/load.h"
#include "infer/memory_fit.h"
#include "infer/run.h"
#include "kernels/dispatch.h"

namespace tern {
namespace {

// What the engine may take, and the weights that leave it that.
struct ContinuationRoom {
  EngineLimits limits;
  InferenceNeeds needs;
  WeightsChoice weights;
};

ContinuationRoom find_room(const Options& options, const ModelDescription& model, const Continuation& c,
                           const InferenceNeeds& needs, const SpeculationChoice& speculation,
                           const MemoryBudget& budget) {
  const int64_t prompt = c.prompt_tokens(), samples = c.request.num_samples;
  ContinuationRoom room{.limits = {.context = needs.context}, .needs = needs, .weights = {}};
  SchedulerLimits& s = room.limits.scheduler;
  s.max_running = samples;
  const int64_t chunk = std::clamp<int64_t>(prompt, 1, options.integer("chunk"));  // memory for no more
  s.chunk = choose_chunk(options, model, needs, budget, prompt, c.request.max_tokens, chunk);
  s.token_budget = s.chunk + samples;
  room.needs.iteration_tokens = iteration_tokens(prompt, s.chunk, samples);
  speculation.add_to(room.needs);
  room.weights = choose_weights(options, model, room.needs, budget);
  return room;
}

// Tokens of a text when half of what it may write is written.
int64_t halfway_of(const Continuation& c, int64_t context) {
  return std::min(context, c.prompt_tokens() + c.request.max_tokens / 2);
}

// Keys and values where the disk moves the fewest bytes for a token. Errors: as find_room, with as many layers on the disk as are weighed.
ContinuationRoom best_room(const Options& options, const ModelDescription& model, const Continuation& c,
                           const InferenceNeeds& needs, const SpeculationChoice& speculation,
                           const MemoryBudget& budget, const KvPlace& place) {
  const auto bytes_of_step = [&](const ContinuationRoom& room) {
    const double weights = room.weights.stream ? expected_bytes(*room.weights.stream, needs.sequences) : 0;
    return weights + kv_step_cost(model, room.needs, halfway_of(c, needs.context));
  };
  const auto make = [&](const InferenceNeeds& with) { return find_room(options, model, c, with, speculation, budget); };
  return room_of_fewest_bytes(place, model, needs, halfway_of(c, needs.context), make, bytes_of_step);
}

Json full_sample_json(const Sample& sample) {
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

Json settings_json(const Options& options, const Continuation& c) {
  const auto origin = [&](const char* name) {
    return options.given(name) ? options.value(name).where : std::string("default");
  };
  Json json = Json::object();
  for (const SettingOrigin& o : c.settings.origins) json[o.name] = {{"value", o.value}, {"origin", o.origin}};
  json["max_tokens"] = {{"value", c.request.max_tokens},
                        {"origin", c.length_of_file ? "generation_config.json" : origin("max-tokens")}};
  json["seed"] = {{"value", c.request.sampling.seed}, {"origin", origin("seed")}};
  return json;
}

Json timings_json(const RunTimings& t, double load_s) {
  Json json = {{"load_s", load_s},
               {"first_token_s", t.first_token_s},
               {"prefill_s", t.prefill_s},
               {"decode_s", t.decode_s},
               {"prefill_tokens", t.prompt_tokens},
               {"generated_tokens", t.generated_tokens},
               {"prefill_tokens_per_s", rate(t.prompt_tokens, t.prefill_s)},
               {"decode_tokens_per_s", rate(t.decode_tokens, t.decode_s)}};
  if (!t.decode_iterations_s.empty()) {
    std::vector<double> each = t.decode_iterations_s;
    std::sort(each.begin(), each.end());
    const auto at = [&](size_t percent) { return each[(each.size() - 1) * percent / 100]; };
    json["decode_step_s"] = {{"least", at(0)}, {"median", at(50)}, {"p99", at(99)}, {"most", at(100)}};
  }
  return json;
}

// What there is to tell of, once it is written.
struct WrittenSamples {
  const ModelDescription& model;
  const Continuation& asked;
  const ContinuationRoom& room;
  const InferenceWeights& loaded;
  const Engine& engine;
  const Arena& arena;
  double load_s;
  int64_t program_bytes;
  int threads;
  int64_t draft_tensors;
  RunTimings timings = {};
  std::vector<Sample> samples = {};
  size_t picked = 0;  // of them
};

Json written_json(const Options& options, const WrittenSamples& w) {
  Json out = {
      {"model", options.positional("MODEL")}, {"prompt_tokens", w.asked.prompt_tokens()}, {"samples", Json::array()}};
  for (const Sample& sample : w.samples) out["samples"].push_back(full_sample_json(sample));
  const Sample& picked = w.samples[w.picked];
  if (options.text("pick") != "all") out["picked"] = w.picked;
  out["text"] = picked.text;
  out["token_ids"] = picked.token_ids;
  out["finish_reason"] = name_of(picked.reason);
  out["settings"] = settings_json(options, w.asked);
  out["settings"].update({{"dtype", name_of(w.model.dtype)},
                          {"kv_dtype", name_of(w.engine.pool().shape().type)},
                          {"context", w.room.needs.context},
                          {"threads", w.threads},
                          {"instruction_set", name_of(active_isa())},
                          {"weights", w.loaded.name()},
                          {"arithmetic", options.text("arithmetic")}});
  out["timings"] = timings_json(w.timings, w.load_s);
  const InferenceFit& fit = w.room.weights.fit;
  out["memory"] = {{"peak_bytes", w.arena.peak_total()},
                   {"predicted_bytes", fit.tensors() + w.draft_tensors},
                   {"program_bytes", w.program_bytes + fit.sampler + fit.beside},
                   {"peak_resident_bytes", read_process_memory().peak_resident_bytes}};
  if (w.engine.speculation()) out["speculation"] = speculation_json(*w.engine.speculation());
  if (w.loaded.streams()) out["streaming"] = w.loaded.json(w.timings);
  if (const KvOnDisk* disk = w.engine.pool().on_disk()) out["kv_on_disk"] = kv_json(*disk);
  return out;
}

// After a text that was written as it came.
void tell_end(const WrittenSamples& w) {
  const Sample& sample = w.samples[0];
  print_out("\n");
  const std::string then = w.timings.decode_tokens > 0
                               ? fmt::format(", then {:.1f} tok/s", rate(w.timings.decode_tokens, w.timings.decode_s))
                               : "";
  log_info("{}, {}; first after {}{}", counted(static_cast<int64_t>(sample.token_ids.size()), "token"),
           describe_end(sample, w.room.needs.context), format_seconds(w.load_s + w.timings.first_token_s), then);
  if (const std::string words = speculation_words(w.engine.speculation()); !words.empty()) log_info("{}", words);
  if (const std::string reached = w.loaded.reached(w.timings); !reached.empty()) log_info("{}", reached);
  if (const KvOnDisk* disk = w.engine.pool().on_disk()) log_info("{}", kv_words(*disk));
}

// Of several samples the one that --pick says.
void tell_picked(const WrittenSamples& w) {
  const Sample& sample = w.samples[w.picked];
  print_out(sample.text + "\n");
  log_info("sample {} of {}: {}, {}", w.picked + 1, w.samples.size(),
           counted(static_cast<int64_t>(sample.token_ids.size()), "token"), describe_end(sample, w.room.needs.context));
}

void print_samples(const WrittenSamples& w) {
  for (size_t i = 0; i < w.samples.size(); ++i)
    print_out(fmt::format("--- sample {} of {} ({})\n{}\n", i + 1, w.samples.size(),
                          describe_end(w.samples[i], w.room.needs.context), w.samples[i].text));
}

void tell_plain_text(const ModelDescription& model) {
  if (!model.tokenizer->has_chat_template()) return;
  log_info(
      "this is a chat model; the prompt is continued as plain text, its chat template is not applied ({} chat "
      "applies it)",
      program_name());
}

void check_options(const Options& options) {
  for (const char* name : {"batch", "output"})
    if (options.given(name)) throw Error(ErrorKind::usage, "--{}: says something of --prompts FILE alone", name);
  if (options.text("pick") != "all" && !options.has("samples-rule") && options.integer("samples") == 1)
    throw Error(ErrorKind::usage, "--pick: of one sample there is nothing to pick; give --samples N too");
}

// All samples, and which one is picked. True: stopped by a signal.
bool write_samples(Engine& engine, const Request& request, bool stream, const std::string& pick, WrittenSamples& w) {
  const auto on_text = [&](int64_t, std::string_view text) {
    if (stream) print_out(text);
    return true;
  };
  std::optional<size_t> first;  // to end by itself
  const auto on_sample = [&](int64_t index, const Sample& sample) {
    if (pick != "first" || !ended_by_itself(sample)) return true;
    first = static_cast<size_t>(index);
    return false;
  };
  w.samples = run_request(
      engine, request, on_text, [] { return stop_requested(); }, &w.timings, on_sample);
  if (pick != "all") w.picked = first ? *first : likeliest_sample(w.samples);
  return !first && std::any_of(w.samples.begin(), w.samples.end(),
                               [](const Sample& s) { return s.reason == FinishReason::cancelled; });
}

}  // namespace

int run_generate(const Options& options) {
  if (options.has("prompts")) {
    refuse_trace_of_prompts(options);
    return run_generate_prompts(options);
  }
  check_options(options);
  const int threads = apply_threads(options);
  const std::string prompt = read_prompt(options);
  tell_invalid_utf8(prompt);

  // Judge before allocating.
  const int64_t start_ns = real_clock().now_ns();
  const ModelDescription model = model_to_continue(options);
  const Continuation asked = read_continuation(options, model, prompt);
  const Request& request = asked.request;
  const InferenceNeeds needs{.context = context_for(options, model, asked),
                             .sequences = request.num_samples,
                             .page_tokens = options.integer("page"),
                             .iteration_tokens = 1,
                             .logit_rows = request.num_samples,
                             .adapters = model.beside,
                             .kv = kv_option(options, model.dtype),
                             .window = stream_window(options, model)};
  SpeculationChoice speculation(options, draft_option(options, model), request.num_samples);
  GenerateTrace trace(options, model, request, needs.context, speculation.budget() > 0);
  const MemoryBudget budget = speculation.beside_draft(memory_budget(options), needs.context);
  const int64_t program = program_bytes();
  const KvPlace place = kv_place(options);
  ContinuationRoom room = best_room(options, model, asked, needs, speculation, budget, place);

  Arena arena;
  const InferenceWeights loaded(options, model, room.weights, request.max_tokens * request.num_samples, arena,
                                WeightsPass::token, request.num_samples);
  speculation.load(model.spec.vocab, arena);
  room.limits.speculation = speculation.settings();
  ModelEngine writer(model, loaded.weights(), room.needs, room.limits, arena, place.directory, trace.recorder());
  tell_kv_before(place, model, room.needs, halfway_of(asked, needs.context), loaded);
  const double load_s = seconds_between(start_ns, real_clock().now_ns());
  tell_plain_text(model);

  const bool json = options.flag("json"), stream = !json && request.num_samples == 1;
  const StopSignals signals;
  WrittenSamples w{model, asked,  room,    loaded,  writer.engine,
                   arena, load_s, program, threads, speculation.draft_tensors()};
  const std::string pick = options.text("pick");
  const bool interrupted =
      naming_bad_weights(model, [&] { return write_samples(writer.engine, request, stream, pick, w); });

  if (json)
    print_json(written_json(options, w));
  else if (stream)
    tell_end(w);
  else
    pick == "all" ? print_samples(w) : tell_picked(w);
  trace.write(model.spec, loaded, writer.pool);
  return interrupted ? 128 + stop_signal() : 0;
}

}  // namespace tern
