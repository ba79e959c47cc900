// tern serve MODEL: the engine behind the OpenAI interface. Judged before it is loaded, as every verb that runs a model.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "apps/common.h"
#include "apps/inference_weights.h"
#include "apps/memory_shares.h"
#include "apps/model_engine.h"
#include "apps/named_adapters.h"
#include "apps/serve_offer.h"
#include "apps/serve_room.h"
#include "apps/serve_settings.h"
#include "apps/signals.h"
#include "apps/speculation_options.h"
#include "apps/verbs.h"
#include "apps/weights_options.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/options.h"
#include "base/units.h"
#include "infer/load.h"
#include "infer/memory_fit.h"
#include "model/model_files.h"

namespace tern {
namespace {

// A served model, from its files to what computes it.
struct Served {
  Served(ModelDescription m, int64_t running) : model(std::move(m)), speculation(running) {}  // nobody guesses
  Served(ModelDescription m, const Options& options, std::shared_ptr<const ModelDescription> draft)
      : model(std::move(m)), speculation(options, std::move(draft), options.integer("max-running")) {}
  ModelDescription model;
  OfferedVectors vectors;
  std::optional<ChatPrompt> chat;
  ServedModel offer;
  SpeculationChoice speculation;
  Room room;
  std::optional<InferenceWeights> loaded;
  std::optional<Linear> pooler;
  std::optional<ModelEngine> writer;
  std::optional<Embedder> embedder;
  bool writes() const { return model.spec.predicts; }
};
using ServedModels = std::vector<std::unique_ptr<Served>>;  // MODEL, then each of --also; they refer to themselves

ModelDescription model_to_serve(const Options& options, const std::string& dir) {
  ModelDescription model = describe_model(dir, dtype_option(options));
  tell_notes(model);
  if (!model.tokenizer)
    throw Error(ErrorKind::bad_file, "{}: there is no tokenizer; put the model's tokenizer.json beside config.json",
                model.dir.path);
  return model;
}

void take_adapters(const Options& options, ModelDescription& model) {
  take_named_adapters(options, offered_name(options), model);
  if (!model.spec.predicts && !model.beside.empty())
    throw Error(ErrorKind::usage, "--adapter: {} is an encoder; adapters answer where a model writes", model.dir.path);
}

std::unique_ptr<Served> served_first(const Options& options) {
  ModelDescription model = model_to_serve(options, options.positional("MODEL"));
  take_adapters(options, model);
  const auto draft = model.spec.predicts ? draft_option(options, model) : nullptr;
  return std::make_unique<Served>(std::move(model), options, draft);
}

// A further model; adapters, a draft and a template are MODEL's.
std::unique_ptr<Served> served_also(const Options& options, const std::string& dir) {
  ModelDescription model = model_to_serve(options, dir);
  if (model.spec.predicts && options.text("speculate") == "ngram")
    return std::make_unique<Served>(std::move(model), options, nullptr);
  return std::make_unique<Served>(std::move(model), options.integer("max-running"));
}

void refuse_taken_name(const ServedModels& models, const std::string& name) {
  for (const auto& other : models) {
    const auto& adapters = other->offer.adapters;
    if (name == other->offer.name || std::ranges::find(adapters, name) != adapters.end())
      throw Error(ErrorKind::usage, "--also {}=…: another model or adapter is called so already; a name is one's own",
                  name);
  }
}

void offer(const Options& options, Served& s, const std::string& name, const std::string& template_file) {
  s.vectors = offered_vectors(options, s.model);
  s.offer = offered_model(name, s.model, s.vectors, template_file, s.chat);
}

ServedModels models_to_serve(const Options& options) {
  ServedModels models;
  models.push_back(served_first(options));
  offer(options, *models.back(), offered_name(options), options.text("chat-template"));
  for (const std::string& given : options.list("also")) {
    const auto [name, dir] = name_and_folder("also", given);
    refuse_taken_name(models, name);
    models.push_back(served_also(options, dir));
    offer(options, *models.back(), name, "");
  }
  return models;
}

// All are judged before any is loaded.
void make_room(const Options& options, ServedModels& models, ServiceSettings& settings) {
  const bool any_writes = std::ranges::any_of(models, [](const auto& s) { return s->writes(); });
  Served& first = *models.front();
  const MemoryBudget budget = first.speculation.beside_draft(budget_beside_requests(options, any_writes, settings),
                                                             most_context(options, first.model));
  std::vector<std::pair<std::string, int64_t>> least;
  for (const auto& s : models)
    least.emplace_back(s->offer.name,
                       models.size() == 1 ? 0 : least_room(options, s->model, s->vectors, budget, s->speculation));
  MemoryShares shares(budget, std::move(least));
  int64_t taken = 0;
  for (const auto& s : models) {
    const MemoryBudget share = shares.next(taken);
    s->room = s->writes() ? room_for_texts(options, s->model, s->vectors.longest, share, s->speculation)
                          : room_for_vectors(options, s->model, s->vectors, share);
    s->offer.context = s->writes() ? s->room.needs.context : s->vectors.longest;
    taken = s->room.bytes();
  }
}

std::string url_of(const std::string& host, uint16_t port) {
  return fmt::format("http://{}:{}", host.find(':') == std::string::npos ? host : "[" + host + "]", port);
}

EngineLimits engine_limits(const Options& options, const Room& room, int64_t max_running,
                           const SpeculationChoice& speculation) {
  return {.scheduler = {.token_budget = room.chunk + max_running, .chunk = room.chunk, .max_running = max_running},
          .context = room.needs.context,
          .cache_prefixes = options.flag("prefix-cache"),
          .speculation = speculation.settings()};
}

Json ready_json(const Served& s) {
  return {{"model", s.offer.name},
          {"adapters", s.offer.adapters},
          {"context", s.offer.context},
          {"pages", s.writes() ? kv_pages(s.room.needs) : 0},
          {"page_tokens", s.room.needs.page_tokens},
          {"kv_dtype", name_of(s.room.needs.kv.value_or(kv_type_of(s.model.dtype)))},
          {"chat", s.offer.chat != nullptr},
          {"embedding_tokens", s.offer.longest_text},
          {"predicted_bytes", s.room.bytes()},
          {"draft_bytes", s.speculation.draft_tensors()}};
}

// Figures of MODEL, and of the others in a list.
void print_ready(const std::string& url, const ServedModels& models, int64_t max_running, double load_s) {
  Json json = {{"url", url}};
  json.update(ready_json(*models.front()));
  json["max_running"] = max_running, json["load_s"] = load_s;
  for (size_t i = 1; i < models.size(); ++i) json["also"].push_back(ready_json(*models[i]));
  print_json(json);
  std::fflush(stdout);
}

void tell_ready(const std::string& url, const Served& s, int64_t max_running, double load_s) {
  log_info("{}: {} is ready after {}; context {}, pages for {} such answers, {} at once{}", url,
           quote_json(s.offer.name), format_seconds(load_s), format_with_commas(s.offer.context),
           s.room.needs.sequences, max_running,
           s.offer.chat ? ""
           : s.writes() ? "; no chat template: /v1/completions only"
                        : "; an encoder: /v1/embeddings only");
}

void load(const Options& options, Served& s, Arena& arena) {
  const int64_t max_running = options.integer("max-running");
  s.loaded.emplace(options, s.model, s.room.weights, s.room.needs.context, arena,
                   s.writes() ? WeightsPass::token : WeightsPass::batch);
  if (s.vectors.longest > 0 && s.vectors.settings.pooling == Pooling::pooler)
    s.pooler = load_pooler(s.model.spec, s.model.dir.path, s.model.dtype, arena);
  if (s.writes()) {
    s.speculation.load(s.model.spec.vocab, arena);
    s.writer.emplace(s.model, s.loaded->weights(), s.room.needs,
                     engine_limits(options, s.room, max_running, s.speculation), arena);
  }
  if (s.vectors.longest > 0)
    s.embedder.emplace(s.model.spec, s.loaded->weights(), s.pooler ? &*s.pooler : nullptr, s.vectors.longest,
                       s.vectors.settings, arena);
}

}  // namespace

int run_serve(const Options& options) {
  const int64_t start_ns = real_clock().now_ns();
  apply_threads(options);
  ServiceSettings settings = service_settings(options);
  const ServedModels models = [&] {
    ServedModels all = models_to_serve(options);
    make_room(options, all, settings);
    return all;
  }();
  const int64_t max_running = settings.rules.max_running;

  const StopSignals signals;
  Service service(settings);  // from here on /health answers
  const std::string url = url_of(settings.host, service.port());
  log_info("{}: listening, {} being loaded", url,
           models.size() == 1 ? "the model is" : fmt::format("{} models are", models.size()));

  Arena arena;
  std::vector<DrivenModel> driven;
  for (const auto& s : models) {
    load(options, *s, arena);
    driven.push_back({&s->offer, {s->writer ? &s->writer->engine : nullptr, s->embedder ? &*s->embedder : nullptr}});
  }
  const auto tell = [&] {
    const double load_s = seconds_between(start_ns, real_clock().now_ns());
    if (options.flag("json")) print_ready(url, models, max_running, load_s);
    for (const auto& s : models) tell_ready(url, *s, max_running, load_s);
  };
  const int64_t cut_off =
      naming_bad_weights(models.front()->model, [&] { return service.run(driven, stop_flag(), tell); });
  if (cut_off > 0) log_warn("{} cut off after {}", counted(cut_off, "answer"), format_seconds(settings.drain_s));
  log_info("ended");
  return 0;
}

}  // namespace tern
