#include "apps/inference_weights.h"
#include "apps/stream_bands.h"
#include "apps/stream_window.h"
#include "apps/weights_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/log.h"
#include "base/options.h"
#include "base/units.h"

namespace tern {
namespace {

constexpr double kProbeSeconds = 0.3;
constexpr int64_t kUsualContext = 8192, kLeastContext = 512;

std::vector<Extent> streamed_extents(const StreamPlan& plan) {
  std::vector<Extent> extents;
  size_t at = 0;
  for (const FileMatrix& m : plan.bands.matrices)
    for (const FileBand& band : m.bands)
      if (!plan.stays[at++]) extents.push_back(band.extent);
  for (const CacheItem& item : expert_items(plan.bands))
    extents.insert(extents.end(), item.extents.begin(), item.extents.end());
  return extents;
}

// A probe reads from a quarter of them on; what another probe has read, a disk might remember.
std::vector<Extent> in_another_order(std::vector<Extent> extents) {
  std::ranges::rotate(extents, extents.begin() + std::ssize(extents) / 2);
  return extents;
}

double gigabytes(double bytes) { return bytes * 1e-9; }

bool may_stream(const Options& options, const ModelDescription& model) {
  return weights_option(options) == "auto" && model.dtype != DType::f64;
}

// These needs, and whether coded matrices are multiplied in integers.
InferenceNeeds with_arithmetic(const Options& options, InferenceNeeds needs) {
  needs.in_integers = in_integers(options);
  return needs;
}

// What modules of an adapter leave that are put in the place of the model's.
MemoryBudget beside_whole_modules(const ModelDescription& model, MemoryBudget budget) {
  const int64_t bytes = whole_module_bytes(model);
  budget.bytes = std::max<int64_t>(0, budget.bytes - bytes);
  if (budget.program >= 0) budget.program += bytes;
  return budget;
}

// Names the least that would do: to stream, or, of a small model, to hold all of it.
[[noreturn]] void refuse(const ModelDescription& model, const InferenceNeeds& needs, const MemoryBudget& budget,
                         const WeightsChoice& whole) {
  if (needs.window) plan_stream(model, needs, budget, {}, kShortestBands);  // throws
  const MemoryBudget less{whole.fit.total() - 1, budget.source};
  if (!stream_if_fits(model, needs, less)) check_fit(model.spec, model.dtype, needs, budget, whole.coded);
  plan_stream(model, needs, budget, {}, kShortestBands);
  throw Error(ErrorKind::does_not_fit, "{}: the model does not fit", model.dir.path);
}

// Nothing streams under an option that asks for weights in memory: the refusal says so.
void check_fit_in_memory(const Options& options, const ModelDescription& model, const InferenceNeeds& needs,
                         const MemoryBudget& budget, const CodedBytes& coded) {
  const std::string asked = model.dtype == DType::f64 ? "--dtype f64" : "--weights " + weights_option(options);
  try {
    check_fit(model.spec, model.dtype, needs, budget, coded);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::does_not_fit) throw;
    throw Error(ErrorKind::does_not_fit, "{}\n  {} takes weights that are in memory: without it they are streamed",
                error.what(), asked);
  }
}

// "io_uring 1.36 GB/s at 0.04 CPU s/GB, direct 1.30 at 0.07: io_uring reads"
std::string readers_text(const ChosenReader& choice) {
  std::string text;
  for (const ProbedReader& r : choice.probed)
    text += fmt::format("{}{} {:.2f} GB/s at {:.2f} CPU s/GB", text.empty() ? "" : ", ", r.name,
                        gigabytes(r.rate.bytes_per_s()), r.rate.cpu_s_per_gb());
  return fmt::format("readers: {}; {} is taken", text, choice.reader().name);
}

Json readers_json(const ChosenReader& choice) {
  Json readers = Json::array();
  for (const ProbedReader& r : choice.probed)
    readers.push_back({{"name", r.name},
                       {"threads", r.threads},
                       {"bytes_per_s", r.rate.bytes_per_s()},
                       {"cpu_s_per_gb", r.rate.cpu_s_per_gb()}});
  return readers;
}

}  // namespace

WeightsChoice choose_weights(const Options& options, const ModelDescription& model, const InferenceNeeds& asked,
                             const MemoryBudget& given) {
  const MemoryBudget budget = beside_whole_modules(model, given);
  const InferenceNeeds needs = with_arithmetic(options, asked);
  WeightsChoice choice;
  choice.coded = stays_coded(options, model, needs, budget);
  choice.fit = inference_fit(model.spec, model.dtype, needs, choice.coded);
  if (choice.fit.total() <= budget.bytes && !needs.window) return choice;
  if (!may_stream(options, model)) check_fit_in_memory(options, model, needs, budget, choice.coded);  // throws
  choice.stream = stream_if_fits(model, needs, budget);
  if (!choice.stream) refuse(model, needs, budget, choice);
  choice.coded = {};
  choice.fit = choice.stream->fit;
  return choice;
}

WeightsChoice choose_weights_to_embed(const Options& options, const ModelDescription& model,
                                      std::span<const std::vector<int32_t>> texts, const EmbeddingSettings& settings,
                                      int64_t kept, const MemoryBudget& budget) {
  const EmbeddingNeeds needs = embedding_needs(model.spec, model.dtype, texts, settings);
  const int64_t whole = embedding_peak(model.spec, model.dtype, texts, settings) +
                        embedding_beside(model.spec, model.dtype, texts, settings) + kept;
  if (whole <= budget.bytes || model.dtype == DType::f64) {
    check_embedding_fit(model.spec, model.dtype, texts, settings, kept, budget);
    return {.fit = inference_fit(model.spec, model.dtype, needs.model),
            .coded = {},
            .stream = {},
            .vectors = needs.pooler + needs.batch};
  }
  MemoryBudget rest = budget;
  const int64_t beside = needs.pooler + needs.batch + kept;
  rest.bytes -= beside;
  if (rest.program >= 0) rest.program += beside;
  WeightsChoice choice = choose_weights(options, model, needs.model, rest);
  choice.vectors = needs.pooler + needs.batch;
  return choice;
}

bool streams_well(const ModelDescription& model, const InferenceNeeds& needs, const MemoryBudget& budget) {
  const auto plan = stream_if_fits(model, needs, budget);
  return plan && plan->fit.kv_cache <= budget.bytes / 8;
}

int64_t choose_context(const Options& options, const ModelDescription& model, const MemoryBudget& given,
                       const std::function<InferenceNeeds(int64_t)>& needs_of) {
  const MemoryBudget budget = beside_whole_modules(model, given);
  const int64_t most = model_context(model);
  if (options.has("context")) {
    if (options.integer("context") > most)
      throw Error(ErrorKind::usage, "--context is {}, the model was made for {}", options.integer("context"), most);
    return options.integer("context");
  }
  const int64_t least = std::min(most, kLeastContext);
  const CodedBytes coded = stays_coded(options, model, needs_of(least), budget);
  const auto needs_at = [&](int64_t context) { return with_arithmetic(options, needs_of(context)); };
  const auto fits = [&](int64_t context) {
    return inference_fit(model.spec, model.dtype, needs_at(context), coded).total() <= budget.bytes;
  };
  const bool streams = !fits(least) && may_stream(options, model);
  int64_t context = std::min(most, kUsualContext);
  while (context > kLeastContext && !(streams ? streams_well(model, needs_at(context), budget) : fits(context)))
    context /= 2;
  return context;
}

int64_t choose_chunk(const Options& options, const ModelDescription& model, const InferenceNeeds& asked,
                     const MemoryBudget& budget, int64_t prompt, int64_t tokens, int64_t chunk) {
  const InferenceNeeds needs = with_arithmetic(options, asked);
  const auto with = [&](int64_t c) {
    InferenceNeeds n = needs;
    n.iteration_tokens = iteration_tokens(prompt, c, needs.sequences);
    return n;
  };
  if (options.given("chunk") || prompt <= 1 || !may_stream(options, model)) return chunk;
  if (!needs.window &&
      inference_fit(model.spec, model.dtype, with(chunk), stays_coded(options, model, with(chunk), budget)).total() <=
          budget.bytes)
    return chunk;
  return chunk_of_fewest_bytes(model, needs, budget, prompt, tokens, chunk);
}

InferenceWeights::InferenceWeights(const Options& options, const ModelDescription& model, const WeightsChoice& choice,
                                   int64_t tokens, Arena& arena, WeightsPass pass, int64_t sequences)
    : pass_(pass), rates_{.rows = sequences} {
  if (!choice.stream) {
    const WeightsPlace place = weights_in(options, model, choice.fit, tokens, choice.coded);
    name_ = place.name;
    whole_ = load_for_inference(model, arena, place.in);
    return;
  }
  stream_ = &*choice.stream;
  name_ = "streamed";
  // Of one sequence's experts products wait for the disk, and threads sleep between them: they are measured so.
  if (pass_ == WeightsPass::token && stream_->experts.count > 0 && sequences == 1) waits_.emplace();
  if (pass_ == WeightsPass::token) measure_products(*stream_, rates_);
  reader_ = choose_reader(stream_->bands.paths, streamed_extents(*stream_), stream_->ring.threads,
                          kProbeSeconds * probe_share(*stream_));
  if (!reader_.note.empty()) log_info("{}", reader_.note);
  rates_.disk = reader_.reader().rate.bytes_per_s();
  ring_ = stream_->ring;
  ring_.threads = reader_.reader().threads;
  rates_.disk_beside = rates_.disk;
  if (pass_ == WeightsPass::token) {
    beside_ =
        measure_beside(*stream_, *reader_.files, in_another_order(streamed_extents(*stream_)), ring_.threads, rates_);
    of_experts_ = measure_experts(*stream_, *reader_.files, ring_.threads, rates_);
  }
  tell_before();
  streamed_ = load_streamed(model.spec, model.dir.path, model.dtype, stream_->bands, stream_->stays,
                            std::move(reader_.files), ring_, arena, stream_->cache);
  correct_after_filling();
  // Where products bind, threads that sleep at each barrier cost more than the disk gains: 64 sequences at a time lost 13 %.
  const bool sleep = pass_ == WeightsPass::token && stream_times(*stream_, rates_).disk_binds();
  if (!sleep)
    waits_.reset();
  else if (!waits_)
    waits_.emplace();
  load_adapter_of(model, streamed_.weights, arena);
}

// What stays is read for longer than the probe was. Where loading waited for the disk, not for packing, that is the better measurement.
void InferenceWeights::correct_after_filling() {
  const double probed = rates_.disk;
  rates_.disk =
      corrected_rate(reader_.reader().rate, streamed_.filled_bytes, streamed_.fill_s, streamed_.fill_waited_s);
  if (probed > 0) rates_.disk_beside *= rates_.disk / probed, rates_.disk_experts *= rates_.disk / probed;
  if (stream_->streamed_bytes == 0 || std::abs(rates_.disk / probed - 1) < 0.03) return;
  const StreamTimes times = stream_times(*stream_, rates_);
  const std::string filled = fmt::format("what stays was read at {:.2f} GB/s ({} in {:.2f} s)", gigabytes(rates_.disk),
                                         format_bytes(streamed_.filled_bytes), streamed_.fill_s);
  if (pass_ == WeightsPass::batch)
    return log_info("{}: a batch takes {} or more", filled, format_seconds(times.disk_s));
  log_info("{}: bound {:.3g} tok/s by {}; predicted {:.3g} tok/s{}", filled, times.bound_tokens_per_s(), times.binds(),
           times.tokens_per_s(), rates_.rows == 1 ? "" : " together");
}

void InferenceWeights::tell_before() const {
  const StreamTimes times = stream_times(*stream_, rates_);
  const ProbedRate& probe = reader_.reader().rate;
  const std::string what = stream_->window ? window_words(*stream_) + ": none"
                                           : "the weights do not fit: " + format_bytes(stream_->kept_bytes);
  log_info("{} of their matrices stay in memory, {} of {} are read for each {} ({} reads, {} threads, a ring of {})",
           what, format_bytes(stream_->streamed_bytes), format_bytes(stream_->pass_bytes),
           pass_ != WeightsPass::token ? "batch"
           : rates_.rows == 1          ? "token"
                                       : fmt::format("step of {} sequences", rates_.rows),
           reader_.reader().name, ring_.threads, format_bytes(stream_->fit.ring - stream_->experts.memory_bytes));
  if (reader_.probed.size() > 1) log_info("{}", readers_text(reader_));
  const ExpertPlan& experts = stream_->experts;
  if (experts.count > 0)
    log_info(
        "experts are read when they are chosen: {} of {} have a place in memory ({} of {}); a token chooses {}, of "
        "which {} "
        "would be read if all were chosen equally often",
        experts.slots, experts.count, format_bytes(stream_->experts.memory_bytes), format_bytes(experts.bytes),
        format_bytes(experts.chosen_bytes),
        format_bytes(static_cast<int64_t>((1 - experts.even_share()) * static_cast<double>(experts.chosen_bytes))));
  if (stream_->streamed_bytes == 0 && experts.count == 0)
    return;  // all but the table of tokens, of which rows are read
  if (pass_ == WeightsPass::batch)
    return log_info("a batch takes {} or more: the disk gives {:.2f} GB/s ({} read in {:.2f} s)",
                    format_seconds(times.disk_s), gigabytes(rates_.disk), format_bytes(probe.bytes), probe.seconds);
  log_info(
      "bound {:.3g} tok/s by {}: the disk gives {:.2f} GB/s ({} read in {:.2f} s), products take {:.1f} GB/s of "
      "weights that stay and {:.1f} of others{}{}; predicted {:.3g} tok/s{}",
      times.bound_tokens_per_s(), times.binds(), gigabytes(rates_.disk), format_bytes(probe.bytes), probe.seconds,
      gigabytes(rates_.kept), gigabytes(rates_.coded),
      beside_.bytes > 0 ? fmt::format("; at the same time {:.0f} and {:.0f} % of that",
                                      100 * rates_.disk_beside / rates_.disk, 100 * (1 - rates_.slowed))
                        : "",
      of_experts_.bytes > 0 ? fmt::format("; experts come at {:.2f} GB/s", gigabytes(rates_.disk_experts)) : "",
      times.tokens_per_s(), rates_.rows == 1 ? "" : " together");
}

double InferenceWeights::least_pass_s(int64_t more_bytes) const {
  if (!stream_) return 0;
  const StreamTimes times = stream_times(*stream_, rates_);
  return std::max(times.disk_s + static_cast<double>(more_bytes) / rates_.disk, times.products_s);
}

std::string InferenceWeights::reached(const RunTimings& timings) const {
  if (!stream_ || timings.decode_tokens == 0) return "";
  const auto passes = static_cast<double>(timings.decode_iterations_s.size());
  const double rate = passes / timings.decode_s;
  if (const CacheHits hits = expert_hits(); hits.wanted > 0)
    return fmt::format("{:.1f} % of chosen experts were there ({} of {}); {:.0f} % of the bound with so many",
                       100 * hits.rate(), hits.hits, hits.wanted,
                       100 * rate * stream_times(*stream_, rates_, hits.rate()).bound_s());
  return fmt::format("{:.0f} % of the bound that was foretold; {:.2f} GB/s were read while decoding",
                     100 * rate * stream_times(*stream_, rates_).bound_s(),
                     gigabytes(passes * static_cast<double>(stream_->streamed_bytes) / timings.decode_s));
}

CacheHits InferenceWeights::expert_hits() const {
  return streamed_.cache ? streamed_.cache->counts().items : CacheHits{};
}

Json InferenceWeights::experts_json() const {
  const CacheCounts counts = streamed_.cache->counts();
  return {{"slots", stream_->experts.slots},
          {"count", stream_->experts.count},
          {"memory_bytes", stream_->experts.memory_bytes},
          {"bytes", stream_->experts.bytes},
          {"chosen_bytes_per_token", stream_->experts.chosen_bytes},
          {"wanted_matrices", counts.items.wanted},
          {"hits", counts.items.hits},
          {"wanted_bytes", counts.wanted_bytes},
          {"missed_bytes", counts.missed_bytes},
          {"read_bytes", counts.read_bytes},
          {"waited_s", 1e-9 * static_cast<double>(counts.waited_ns)}};
}

Json InferenceWeights::json(const RunTimings& timings) const {
  const StreamTimes times = stream_times(*stream_, rates_);
  const RingCounts counts = streamed_.ring ? streamed_.ring->counts() : RingCounts{};
  const bool token = pass_ == WeightsPass::token;
  Json out = {{"kept_bytes", stream_->kept_bytes},
              {token ? "bytes_per_token" : "bytes_per_batch", stream_->streamed_bytes},
              {"pass_bytes", stream_->pass_bytes},
              {"ring_bytes", stream_->fit.ring - stream_->experts.memory_bytes},
              {"slots", stream_->ring.slots},
              {"threads", ring_.threads},
              {"reader", reader_.reader().name},
              {"readers", readers_json(reader_)},
              {"disk_bytes_per_s", rates_.disk},
              {"probe_bytes", reader_.reader().rate.bytes},
              {"filled_bytes", streamed_.filled_bytes},
              {"fill_s", streamed_.fill_s},
              {"fill_waited_s", streamed_.fill_waited_s},
              {"used_bytes", counts.used_bytes},
              {"read_bytes", counts.read_bytes},
              {"skipped_extents", counts.skipped},
              {"waited_s", 1e-9 * static_cast<double>(counts.waited_ns)}};
  if (streamed_.cache) out["experts"] = experts_json();
  if (stream_->window) out["window"] = window_json(*stream_);
  if (!token) {
    out["least_batch_s"] = times.disk_s;
    return out;
  }
  out["product_bytes_per_s"] = {{"kept", rates_.kept}, {"streamed", rates_.coded}};
  if (rates_.experts > 0) out["product_bytes_per_s"]["experts"] = rates_.experts;
  if (of_experts_.bytes > 0)
    out["experts"]["disk_bytes_per_s"] = rates_.disk_experts, out["experts"]["probe_bytes"] = of_experts_.bytes;
  if (beside_.bytes > 0)
    out["at_the_same_time"] = {
        {"disk_bytes_per_s", rates_.disk_beside}, {"products", 1 - rates_.slowed}, {"probe_bytes", beside_.bytes}};
  out["bound_tokens_per_s"] = times.bound_tokens_per_s();
  out["bound_by"] = times.binds();
  out["predicted_tokens_per_s"] = times.tokens_per_s();
  out["sequences"] = times.tokens;
  if (const CacheHits hits = expert_hits(); hits.wanted > 0)
    out["experts"]["predicted_tokens_per_s"] = stream_times(*stream_, rates_, hits.rate()).tokens_per_s();
  if (timings.decode_tokens > 0)
    out["reached"] = static_cast<double>(timings.decode_iterations_s.size()) / timings.decode_s * times.bound_s();
  return out;
}

}  // namespace tern
