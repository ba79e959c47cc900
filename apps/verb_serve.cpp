// tern serve MODEL: the engine behind the OpenAI interface. Judged before it is loaded, as every verb that runs a model.
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "apps/common.h"
#include "apps/embed_settings.h"
#include "apps/inference_weights.h"
#include "apps/named_adapters.h"
#include "apps/signals.h"
#include "apps/speculation_options.h"
#include "apps/verbs.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/options.h"
#include "base/text.h"
#include "base/units.h"
#include "base/utf8.h"
#include "infer/chat_prompt.h"
#include "infer/constrain/constraint.h"
#include "infer/load.h"
#include "model/model_files.h"
#include "serve/service.h"

namespace tern {
namespace {

std::vector<std::string> keys_of(const Options& options) {
  std::vector<std::string> keys;
  if (options.has("api-key")) keys.push_back(options.text("api-key"));
  if (options.has("api-key-file"))
    for (const std::string_view line : split(read_text(options.text("api-key-file")), '\n'))
      if (!trim(line).empty()) keys.emplace_back(trim(line));
  for (const std::string& key : keys)
    if (key.empty() || key.find_first_of(" \t\r\n") != std::string::npos)
      throw Error(ErrorKind::usage, "--api-key: a key is a word without blanks");
  if (options.has("api-key-file") && keys.empty())
    throw Error(ErrorKind::bad_file, "--api-key-file {}: holds no key, expected one a line",
                options.text("api-key-file"));
  return keys;
}

// Descriptors for all connections, and some for files; the limit of the process is raised as far as it may be.
int64_t connections_that_fit(int64_t wanted) {
  constexpr rlim_t kOthers = 64;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return wanted;
  const rlim_t needed = static_cast<rlim_t>(wanted) + kOthers;
  if (limit.rlim_cur < needed) {
    limit.rlim_cur = std::min(needed, limit.rlim_max);
    ::setrlimit(RLIMIT_NOFILE, &limit);
    ::getrlimit(RLIMIT_NOFILE, &limit);
  }
  if (limit.rlim_cur >= needed) return wanted;
  const auto fit = static_cast<int64_t>(limit.rlim_cur) - static_cast<int64_t>(kOthers);
  if (fit < 1)
    throw Error(ErrorKind::does_not_fit, "the process may open {} files, too few for a server; raise ulimit -n",
                limit.rlim_cur);
  log_info("{} connections instead of {}: the process may open {} files (ulimit -n)", fit, wanted, limit.rlim_cur);
  return fit;
}

ServiceSettings service_settings(const Options& options) {
  ServiceSettings s;
  s.host = options.text("host");
  s.port = static_cast<uint16_t>(options.integer("port"));
  s.rules.access = {
      .keys = keys_of(options), .hosts = options.list("allow-host"), .origins = options.list("allow-origin")};
  s.rules.access.hosts.push_back(s.host);
  s.rules.max_running = options.integer("max-running");
  s.rules.max_queue = options.integer("max-queue");
  s.http.body_bytes = options.integer("max-body");
  s.http.bodies_bytes = std::max<int64_t>(16 << 20, s.http.body_bytes);
  s.http.connections = connections_that_fit(options.integer("max-connections"));
  s.drain_s = options.real("drain");
  s.version = TERN_VERSION;
  if (!is_loopback(s.host) && s.rules.access.keys.empty())
    throw Error(ErrorKind::usage,
                "--host {}: other machines reach this address, and anybody there could ask; give a key (TERN_API_KEY "
                "or --api-key-file), "
                "or listen on 127.0.0.1",
                s.host);
  return s;
}

// Where a request says nothing: what the model's makers say, else what OpenAI's documents say (temperature 1, no filters).
SamplingOptions usual_sampling(const GenerationConfig& file) {
  SamplingOptions s;
  s.temperature = 1;
  s.repetition_penalty = file.repetition_penalty.value_or(1);
  if (!file.do_sample.value_or(false)) return s;
  s.temperature = file.temperature.value_or(1);
  s.top_k = file.top_k.value_or(0);
  s.top_p = file.top_p.value_or(1);
  s.min_p = file.min_p.value_or(0);
  check_sampling(s);
  return s;
}

// What the engine is given room for.
struct Room {
  InferenceNeeds needs;
  int64_t chunk = 0;
  WeightsChoice weights;
};

// As many sequences of the chosen context as memory has pages for; where weights stream, as leave room for those.
// Errors: does_not_fit.
Room find_room(const Options& options, const ModelDescription& model, int64_t longest_text, const MemoryBudget& budget,
               const SpeculationChoice& speculation) {
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

struct Vectors {
  EmbedDefaults own;
  EmbeddingSettings settings;
  int64_t longest = 0;  // 0: none
  std::string why_none;
};

Vectors vectors_of(const Options& options, const ModelDescription& model) {
  Vectors v;
  v.own = embed_defaults(model);
  v.settings = {.pooling = v.own.pooling, .normalize = v.own.normalize, .batch = 1};
  v.longest = std::min(options.integer("embed-tokens"), v.own.max_tokens);
  if (v.longest == 0) v.why_none = "this server makes no vectors (--embed-tokens 0)";
  if (!v.own.include_prompt && !v.own.prefix.empty()) {
    v.longest = 0;
    v.why_none = "include_prompt is false: tern does not leave the prompt's rows out of a vector";
  }
  return v;
}

std::string name_of_model(const Options& options) {
  if (options.has("model-name")) {
    if (!is_valid_utf8(options.text("model-name")))
      throw Error(ErrorKind::usage, "--model-name {}: is not UTF-8, and answers in JSON could not name it",
                  make_printable(options.text("model-name")));
    return options.text("model-name");
  }
  const std::filesystem::path path = std::filesystem::path(options.positional("MODEL")).lexically_normal();
  return make_valid_utf8(path.has_filename() ? path.filename().string() : path.parent_path().filename().string());
}

}  // namespace

int run_serve(const Options& options) {
  Clock& clock = real_clock();
  const int64_t start_ns = clock.now_ns();
  apply_threads(options);
  ServiceSettings settings = service_settings(options);
  ModelDescription model = describe_model(options.positional("MODEL"), dtype_option(options));
  tell_notes(model);
  take_named_adapters(options, name_of_model(options), model);
  if (!model.tokenizer)
    throw Error(ErrorKind::bad_file, "{}: there is no tokenizer; put the model's tokenizer.json beside config.json",
                model.dir.path);
  const bool writes = model.spec.predicts;
  if (!writes && !model.beside.empty())
    throw Error(ErrorKind::usage, "--adapter: {} is an encoder; adapters answer where a model writes", model.dir.path);
  const Vectors vectors = vectors_of(options, model);

  ServedModel served{
      .name = name_of_model(options), .created_s = clock.wall_ns() / 1'000'000'000, .tokenizer = &*model.tokenizer};
  for (const NamedAdapter& adapter : model.beside) served.adapters.push_back(adapter.name);
  served.vocab = model.spec.vocab, served.width = model.spec.width, served.writes = writes;
  served.longest_text = vectors.longest, served.why_no_embeddings = vectors.why_none,
  served.text_prefix = vectors.own.prefix;
  std::optional<ChatPrompt> chat;
  if (writes) {
    served.sampling = usual_sampling(model.generation);
    served.ends = end_tokens(model);
    try {
      served.texts = std::make_shared<const TokenTexts>(token_texts(*model.tokenizer, model.spec.vocab));
    } catch (const Error& error) { served.why_no_texts = error.what(); }
    served.stops = model.generation.stop_strings;
    if (options.has("chat-template") || model.tokenizer->has_chat_template()) {
      chat.emplace(model.dir.path, options.text("chat-template"), *model.tokenizer);
      served.chat = &*chat;
      served.turn_ends = chat->turn_ends();
      take_tool_marks(served);
    } else {
      served.why_no_chat = fmt::format(
          "{} brings no chat template: it continues texts (/v1/completions) and was not taught to converse; "
          "--chat-template "
          "gives it one",
          quote_json(served.name));
    }
  }

  MemoryBudget budget = memory_budget(options);
  budget.bytes -= settings.http.bodies_bytes;  // requests that are being read
  if (budget.program >= 0) budget.program += settings.http.bodies_bytes;
  if (writes) {  // and answers that are held whole
    settings.rules.answers_bytes = std::min(settings.rules.answers_bytes, budget.bytes / 32);
    budget.bytes -= settings.rules.answers_bytes;
  }
  const SpeculationChoice speculation(options, settings.rules.max_running);
  Room room;
  if (writes) {
    room = find_room(options, model, vectors.longest, budget, speculation);
    served.context = room.needs.context;
  } else {
    if (vectors.longest == 0)
      throw Error(ErrorKind::usage, "{} is an encoder, and {}; nothing is left to serve", model.dir.path,
                  vectors.why_none);
    served.context = vectors.longest;
  }
  const std::vector<std::vector<int32_t>> longest_text(vectors.longest > 0 ? 1 : 0,
                                                       std::vector<int32_t>(static_cast<size_t>(vectors.longest)));
  if (!writes) {
    if (in_integers(options))
      throw Error(ErrorKind::usage,
                  "--arithmetic int8: {} is an encoder, whose vectors are made of decoded weights; leave it out",
                  model.dir.path);
    room.weights = choose_weights_to_embed(options, model, longest_text, vectors.settings, 0, budget);
  }

  const StopSignals signals;
  Service service(settings);  // from here on /health answers
  const std::string url = fmt::format(
      "http://{}:{}", settings.host.find(':') == std::string::npos ? settings.host : "[" + settings.host + "]",
      service.port());
  log_info("{}: listening, the model is being loaded", url);

  Arena arena;
  const InferenceWeights loaded(options, model, room.weights, writes ? room.needs.context : 0, arena,
                                writes ? WeightsPass::token : WeightsPass::batch);
  const ModelWeights& weights = loaded.weights();
  const bool turned = writes && model.spec.rope.kind != RopeKind::none;
  const RopeTable rope = turned ? rope_table(model.spec, room.needs.context, room.needs.context) : RopeTable{};
  std::optional<Linear> pooler;
  if (vectors.longest > 0 && vectors.settings.pooling == Pooling::pooler)
    pooler = load_pooler(model.spec, model.dir.path, model.dtype, arena);
  std::optional<KvPool> pool;
  std::optional<Engine> engine;
  if (writes) {
    pool.emplace(kv_shape(model.spec, model.dtype, room.needs), kv_pages(room.needs), arena);
    const EngineLimits limits{.scheduler = {.token_budget = room.chunk + settings.rules.max_running,
                                            .chunk = room.chunk,
                                            .max_running = settings.rules.max_running},
                              .context = room.needs.context,
                              .cache_prefixes = options.flag("prefix-cache"),
                              .speculation = speculation.settings()};
    engine.emplace(
        *pool,
        model_executor(model.spec, weights, turned ? &rope : nullptr, arena, static_cast<int>(model.beside.size())),
        &*model.tokenizer, limits, clock);
  }
  std::optional<Embedder> embedder;
  if (vectors.longest > 0)
    embedder.emplace(model.spec, weights, pooler ? &*pooler : nullptr, vectors.longest, vectors.settings, arena);

  if (options.flag("json")) {
    print_json({{"url", url},
                {"model", served.name},
                {"adapters", served.adapters},
                {"context", served.context},
                {"pages", writes ? kv_pages(room.needs) : 0},
                {"page_tokens", room.needs.page_tokens},
                {"kv_dtype", name_of(room.needs.kv.value_or(kv_type_of(model.dtype)))},
                {"max_running", settings.rules.max_running},
                {"chat", served.chat != nullptr},
                {"embedding_tokens", served.longest_text},
                {"predicted_bytes", room.weights.peak() + room.weights.fit.beside},
                {"load_s", seconds_between(start_ns, clock.now_ns())}});
    std::fflush(stdout);
  }
  log_info("{}: {} is ready after {}; context {}, pages for {} such answers, {} at once{}", url,
           quote_json(served.name), format_seconds(seconds_between(start_ns, clock.now_ns())),
           format_with_commas(served.context), room.needs.sequences, settings.rules.max_running,
           served.chat ? ""
           : writes    ? "; no chat template: /v1/completions only"
                       : "; an encoder: /v1/embeddings only");
  const int64_t cut_off = naming_bad_weights(model, [&] {
    return service.run(served, engine ? &*engine : nullptr, embedder ? &*embedder : nullptr, stop_flag());
  });
  if (cut_off > 0) log_warn("{} cut off after {}", counted(cut_off, "answer"), format_seconds(settings.drain_s));
  log_info("ended");
  return 0;
}

}  // namespace tern
