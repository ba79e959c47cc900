// tern serve MODEL: the engine behind the OpenAI interface. Judged before it is loaded, as every verb that runs a model.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "apps/common.h"
#include "apps/inference_weights.h"
#include "apps/model_engine.h"
#include "apps/named_adapters.h"
#include "apps/serve_offer.h"
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

// What is given room, and the weights that leave it that. Of an encoder no keys and values.
struct Room {
  InferenceNeeds needs;
  int64_t chunk = 0;
  WeightsChoice weights;
};

// As many sequences of the chosen context as memory has pages for; where weights stream, as leave room for those.
// Errors: does_not_fit.
Room room_for_texts(const Options& options, const ModelDescription& model, int64_t longest_text,
                    const MemoryBudget& budget, const SpeculationChoice& speculation) {
  const int64_t running = options.integer("max-running"), rows = running + speculation.budget();
  Room room{.needs = {}, .chunk = options.integer("chunk"), .weights = {}};
  const auto needs_of = [&](int64_t context) {
    return InferenceNeeds{.context = context,
                          .sequences = 1,
                          .page_tokens = options.integer("page"),
                          .iteration_tokens = std::max(std::min(room.chunk, context) + rows, longest_text),
                          .logit_rows = rows,
                          .adapters = model.beside,
                          .kv = kv_option(options, model.dtype)};
  };
  InferenceNeeds& n = room.needs;
  n = needs_of(choose_context(options, model, budget, needs_of));
  room.weights = choose_weights(options, model, n, budget);
  const auto suits = [&] {
    if (room.weights.stream) return streams_well(model, n, budget);
    return inference_fit(model.spec, model.dtype, n, room.weights.coded).total() <= budget.bytes;
  };
  int64_t enough = 1, too_many = running + 1;
  while (too_many - enough > 1) {
    n.sequences = (enough + too_many) / 2;
    (suits() ? enough : too_many) = n.sequences;
  }
  n.sequences = enough;
  if (enough > 1) room.weights = choose_weights(options, model, n, budget);
  room.chunk = std::min(room.chunk, n.context);
  return room;
}

Room room_for_vectors(const Options& options, const ModelDescription& model, const OfferedVectors& vectors,
                      const MemoryBudget& budget) {
  if (vectors.longest == 0)
    throw Error(ErrorKind::usage, "{} is an encoder, and {}; nothing is left to serve", model.dir.path,
                vectors.why_none);
  if (in_integers(options))
    throw Error(ErrorKind::usage,
                "--arithmetic int8: {} is an encoder, whose vectors are made of decoded weights; leave it out",
                model.dir.path);
  const std::vector<std::vector<int32_t>> longest_text(1, std::vector<int32_t>(static_cast<size_t>(vectors.longest)));
  Room room;
  room.weights = choose_weights_to_embed(options, model, longest_text, vectors.settings, 0, budget);
  return room;
}

// What memory is left beside requests that are being read, and answers that are held whole.
MemoryBudget budget_beside_requests(const Options& options, bool writes, ServiceSettings& settings) {
  MemoryBudget budget = memory_budget(options);
  budget.bytes -= settings.http.bodies_bytes;
  if (budget.program >= 0) budget.program += settings.http.bodies_bytes;
  if (writes) {
    settings.rules.answers_bytes = std::min(settings.rules.answers_bytes, budget.bytes / 32);
    budget.bytes -= settings.rules.answers_bytes;
  }
  return budget;
}

ModelDescription model_to_serve(const Options& options) {
  ModelDescription model = describe_model(options.positional("MODEL"), dtype_option(options));
  tell_notes(model);
  take_named_adapters(options, offered_name(options), model);
  if (!model.tokenizer)
    throw Error(ErrorKind::bad_file, "{}: there is no tokenizer; put the model's tokenizer.json beside config.json",
                model.dir.path);
  if (!model.spec.predicts && !model.beside.empty())
    throw Error(ErrorKind::usage, "--adapter: {} is an encoder; adapters answer where a model writes", model.dir.path);
  return model;
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

void print_ready(const std::string& url, const ModelDescription& model, const ServedModel& served, const Room& room,
                 int64_t max_running, int64_t draft_bytes, double load_s) {
  print_json({{"url", url},
              {"model", served.name},
              {"adapters", served.adapters},
              {"context", served.context},
              {"pages", served.writes ? kv_pages(room.needs) : 0},
              {"page_tokens", room.needs.page_tokens},
              {"kv_dtype", name_of(room.needs.kv.value_or(kv_type_of(model.dtype)))},
              {"max_running", max_running},
              {"chat", served.chat != nullptr},
              {"embedding_tokens", served.longest_text},
              {"predicted_bytes", room.weights.peak() + room.weights.fit.beside},
              {"draft_bytes", draft_bytes},
              {"load_s", load_s}});
  std::fflush(stdout);
}

void tell_ready(const std::string& url, const ServedModel& served, const Room& room, int64_t max_running,
                double load_s) {
  log_info("{}: {} is ready after {}; context {}, pages for {} such answers, {} at once{}", url,
           quote_json(served.name), format_seconds(load_s), format_with_commas(served.context), room.needs.sequences,
           max_running,
           served.chat     ? ""
           : served.writes ? "; no chat template: /v1/completions only"
                           : "; an encoder: /v1/embeddings only");
}

}  // namespace

int run_serve(const Options& options) {
  const int64_t start_ns = real_clock().now_ns();
  apply_threads(options);
  ServiceSettings settings = service_settings(options);
  const ModelDescription model = model_to_serve(options);
  const bool writes = model.spec.predicts;
  const OfferedVectors vectors = offered_vectors(options, model);
  std::optional<ChatPrompt> chat;
  ServedModel served = offered_model(options, model, vectors, chat);
  const int64_t max_running = settings.rules.max_running;
  SpeculationChoice speculation(options, writes ? draft_option(options, model) : nullptr, max_running);
  const MemoryBudget budget =
      speculation.beside_draft(budget_beside_requests(options, writes, settings), most_context(options, model));
  const Room room = writes ? room_for_texts(options, model, vectors.longest, budget, speculation)
                           : room_for_vectors(options, model, vectors, budget);
  served.context = writes ? room.needs.context : vectors.longest;

  const StopSignals signals;
  Service service(settings);  // from here on /health answers
  const std::string url = url_of(settings.host, service.port());
  log_info("{}: listening, the model is being loaded", url);

  Arena arena;
  const InferenceWeights loaded(options, model, room.weights, room.needs.context, arena,
                                writes ? WeightsPass::token : WeightsPass::batch);
  std::optional<Linear> pooler;
  if (vectors.longest > 0 && vectors.settings.pooling == Pooling::pooler)
    pooler = load_pooler(model.spec, model.dir.path, model.dtype, arena);
  std::optional<ModelEngine> writer;
  if (writes) speculation.load(model.spec.vocab, arena);
  if (writes)
    writer.emplace(model, loaded.weights(), room.needs, engine_limits(options, room, max_running, speculation), arena);
  std::optional<Embedder> embedder;
  if (vectors.longest > 0)
    embedder.emplace(model.spec, loaded.weights(), pooler ? &*pooler : nullptr, vectors.longest, vectors.settings,
                     arena);

  const auto tell = [&] {
    const double load_s = seconds_between(start_ns, real_clock().now_ns());
    if (options.flag("json")) print_ready(url, model, served, room, max_running, speculation.draft_tensors(), load_s);
    tell_ready(url, served, room, max_running, load_s);
  };
  const int64_t cut_off = naming_bad_weights(model, [&] {
    return service.run(served, writer ? &writer->engine : nullptr, embedder ? &*embedder : nullptr, stop_flag(), tell);
  });
  if (cut_off > 0) log_warn("{} cut off after {}", counted(cut_off, "answer"), format_seconds(settings.drain_s));
  log_info("ended");
  return 0;
}

}  // namespace tern
