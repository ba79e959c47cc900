// tern generate MODEL --prompts FILE: many texts, several at a time; one JSON line each, in the order of the file.
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "apps/common.h"
#include "apps/continuation.h"
#include "apps/identity.h"
#include "apps/inference_weights.h"
#include "apps/kv_place.h"
#include "apps/model_engine.h"
#include "apps/prompts_file.h"
#include "apps/read_text.h"
#include "apps/signals.h"
#include "apps/speculation_options.h"
#include "apps/stream_window.h"
#include "apps/verbs.h"
#include "base/clock.h"
#include "base/crc32c.h"
#include "base/error.h"
#include "base/log.h"
#include "base/options.h"
#include "base/progress.h"
#include "base/units.h"
#include "eval/result_log.h"
#include "formats/data/text_data.h"
#include "infer/load.h"
#include "infer/memory_fit.h"

namespace tern {
namespace {

constexpr int64_t kMostWhole = 64, kMostStreamed = 256;  // at a time, where --batch does not say

// The requests, and what of them is written already.
struct Prompts {
  PromptsFile file;
  std::vector<Request> requests;
  size_t written = 0;
  int64_t longest_prompt = 0, longest = 0;  // tokens: of a prompt; of a prompt with what it may write
  int64_t context = 0;
  int64_t halfway = 0;  // tokens of a text when half of what it may write is written, on average
  int64_t bytes() const {
    int64_t all = 0;
    for (const PromptLine& line : file.lines) all += static_cast<int64_t>(sizeof line + line.prompt.capacity());
    for (const Request& r : requests) all += static_cast<int64_t>(sizeof r + r.prompt.capacity() * sizeof(int32_t));
    return all;
  }
};

void refuse_beside(const Options& options, std::initializer_list<const char*> names, const char* why) {
  for (const char* name : names)
    if (options.given(name)) throw Error(ErrorKind::usage, "--{}: beside --prompts {}; leave it out", name, why);
}

// All of --prompts. Of a byte: itself, its text, JSON on its way there; of a line: its text in a list that grows, its request.
std::string prompts_text(const Options& options, const std::string& place) {
  const TextRoom room{text_room(options), 1 + kLineBytesPerByte};
  std::string text = read_text(options.text("prompts"), room);
  require_lines_fit(text, 3 * sizeof(PromptLine) + sizeof(Request), {text_room(options), room.per_byte}, place);
  return text;
}

int64_t halfway_tokens(std::span<const Request> requests, int64_t context) {
  int64_t tokens = 0;
  for (const Request& r : requests)
    tokens += std::min(context, static_cast<int64_t>(r.prompt.size()) + r.max_tokens / 2);
  return tokens / std::max<int64_t>(1, std::ssize(requests));
}

Prompts read_prompts(const Options& options, const ModelDescription& model) {
  Prompts p;
  const std::string place = options.text("prompts") == "-" ? "standard input" : options.text("prompts");
  p.file = parse_prompts(prompts_text(options, place), place);
  // The texts are there; beside them come the tokens, and a long one while it is encoded.
  const int64_t room = text_room(options);
  int64_t held = 0;
  p.requests.reserve(p.file.lines.size());
  if (!p.file.passed_over.empty())
    log_info("{}: not read: {}", place, fmt::format("{}", fmt::join(p.file.passed_over, ", ")));
  const Request like = read_continuation(options, model, "").request;
  for (size_t i = 0; i < p.file.lines.size(); ++i) {
    const PromptLine& line = p.file.lines[i];
    Request r = like;
    const auto bytes = static_cast<int64_t>(line.prompt.size());
    const int64_t needed = held + (bytes > kSmallText ? kEncodeBytesPerByte * bytes : 0);
    if (needed > kSmallText) require_text_fits(bytes, needed, room, fmt::format("{}: line {}", place, line.number));
    r.prompt = prompt_tokens(model, line.prompt);
    held += static_cast<int64_t>(r.prompt.capacity() * sizeof r.prompt[0]);
    r.max_tokens = line.max_tokens.value_or(like.max_tokens);
    r.first_sequence = i * static_cast<uint64_t>(like.num_samples);
    const auto length = static_cast<int64_t>(r.prompt.size());
    p.longest_prompt = std::max(p.longest_prompt, length), p.longest = std::max(p.longest, length + r.max_tokens);
    p.requests.push_back(std::move(r));
  }
  p.context = longest_context(options, model, p.longest);
  p.halfway = halfway_tokens(p.requests, p.context);
  for (size_t i = 0; i < p.requests.size(); ++i)
    if (std::ssize(p.requests[i].prompt) >= p.context)
      throw Error(ErrorKind::usage,
                  "{}: line {}: the prompt has {} tokens, the context holds {}, which leaves no room to write; shorten "
                  "it{} (tern never cuts a prompt)",
                  place, p.file.lines[i].number, p.requests[i].prompt.size(), p.context,
                  p.context < model_context(model) ? " or raise --context" : "");
  return p;
}

// What an answers file was asked for: all that decides a bit of an answer.
Json question_of(const Options& options, const ModelDescription& model, const Prompts& p) {
  const Request& r = p.requests.front();
  const SamplingOptions& s = r.sampling;
  const auto crc = [&](const char* name) {
    return options.has(name) ? fmt::format("{:08x}", crc32c(read_text(options.text(name)))) : std::string();
  };
  uint32_t prompts = 0;
  for (const PromptLine& line : p.file.lines)
    prompts = crc32c(fmt::format("{} {} {}\n", quote_json(line.prompt), line.id, line.max_tokens.value_or(0)), prompts);
  return {{"model", weights_identity(model)},
          {"prompts", fmt::format("{} of CRC-32C {:08x}", p.requests.size(), prompts)},
          {"max_tokens", options.integer("max-tokens")},
          {"samples", r.num_samples},
          {"temperature", s.temperature},
          {"top_k", s.top_k},
          {"top_p", s.top_p},
          {"min_p", s.min_p},
          {"repetition_penalty", s.repetition_penalty},
          {"presence_penalty", s.presence_penalty},
          {"frequency_penalty", s.frequency_penalty},
          {"seed", s.seed},
          {"eos", r.eos},
          {"stop", r.stops},
          {"json_schema", crc("json-schema")},
          {"grammar", crc("grammar")},
          {"context", p.context},
          {"dtype", name_of(model.dtype)},
          {"kv_dtype", name_of(kv_option(options, model.dtype).value_or(kv_type_of(model.dtype)))},
          {"arithmetic", options.text("arithmetic")}};
}

// What the engine may take for so many prompts at a time, and the weights that leave it that.
struct BatchRoom {
  int64_t batch = 1;
  std::shared_ptr<SpeculationChoice> speculation;  // has what guesses
  EngineLimits limits;
  InferenceNeeds needs;
  WeightsChoice weights;
};

using Draft = std::shared_ptr<const ModelDescription>;  // null: none

// With keys and values of so many layers on the disk.
BatchRoom room_for(const Options& options, const ModelDescription& model, const Draft& draft, const Prompts& p,
                   const MemoryBudget& all, int64_t batch, int64_t kv_on_disk) {
  const int64_t sequences = batch * p.requests.front().num_samples;
  BatchRoom room{.batch = batch};
  room.speculation = std::make_shared<SpeculationChoice>(options, draft, sequences);
  const MemoryBudget budget = room.speculation->beside_draft(all, p.context);
  EngineLimits& limits = room.limits;
  limits.context = p.context;
  room.needs = {.context = limits.context,
                .sequences = sequences,
                .page_tokens = options.integer("page"),
                .iteration_tokens = 1,
                .logit_rows = sequences,
                .adapters = model.beside,
                .kv = kv_option(options, model.dtype),
                .kv_on_disk = kv_on_disk,
                .window = stream_window(options, model)};
  limits.scheduler.max_running = sequences;
  const int64_t chunk = std::clamp<int64_t>(p.longest_prompt, 1, options.integer("chunk"));
  limits.scheduler.chunk = choose_chunk(options, model, room.needs, budget, p.longest_prompt, p.longest, chunk);
  limits.scheduler.token_budget = limits.scheduler.chunk + sequences;
  room.needs.iteration_tokens = limits.scheduler.token_budget;
  room.speculation->add_to(room.needs);
  room.weights = choose_weights(options, model, room.needs, budget);
  return room;
}

// Bytes that the disk moves for each token, of all of the batch together, when the texts are half written.
double bytes_for_a_token(const ModelDescription& model, const Prompts& p, const BatchRoom& room) {
  const double weights = room.weights.stream ? expected_bytes(*room.weights.stream, room.needs.sequences) : 0;
  const double keys = kv_step_cost(model, room.needs, p.halfway);
  return (weights + keys) / static_cast<double>(room.needs.sequences);
}

// So many prompts at a time, with keys and values where the fewest bytes are moved for a token. Errors: as room_for, with as many layers on the
// disk as are weighed.
BatchRoom room_of_batch(const Options& options, const ModelDescription& model, const Draft& draft, const Prompts& p,
                        const MemoryBudget& budget, const KvPlace& place, int64_t batch) {
  InferenceNeeds needs{.context = p.context,
                       .sequences = batch * p.requests.front().num_samples,
                       .page_tokens = options.integer("page"),
                       .kv = kv_option(options, model.dtype)};
  const auto make = [&](const InferenceNeeds& with) {
    return room_for(options, model, draft, p, budget, batch, with.kv_on_disk);
  };
  return room_of_fewest_bytes(place, model, needs, p.halfway, make,
                              [&](const BatchRoom& room) { return bytes_for_a_token(model, p, room); });
}

// --batch, or: of weights that fit, as many prompts as leave them where they are with one; of weights that stream, the number for
// which the fewest bytes are moved for a token. Keys and values go to the disk only where that makes them fewer, which is then more tokens a second
// than any smaller batch has by the disk's rate.
BatchRoom choose_room(const Options& options, const ModelDescription& model, const Prompts& p,
                      const MemoryBudget& budget, const KvPlace& place) {
  const Draft draft = draft_option(options, model);
  const auto left = static_cast<int64_t>(p.requests.size() - p.written);
  const auto room_with = [&](int64_t batch) { return room_of_batch(options, model, draft, p, budget, place, batch); };
  if (options.has("batch")) return room_with(std::min(left, options.integer("batch")));
  BatchRoom best = room_with(1);
  const bool streams = best.weights.stream.has_value(), coded = !best.weights.coded.empty();
  const int64_t most = std::min(left, streams ? kMostStreamed : kMostWhole);
  for (int64_t batch = 2; batch < 2 * most; batch *= 2) {
    try {
      BatchRoom room = room_with(std::min(batch, most));
      const bool alike = room.weights.stream.has_value() == streams && !room.weights.coded.empty() == coded;
      if ((!streams && !alike) || bytes_for_a_token(model, p, room) > bytes_for_a_token(model, p, best)) break;
      best = std::move(room);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::does_not_fit) throw;
      break;
    }
  }
  return best;
}

Json brief_sample_json(const Sample& s) {
  Json json = {{"text", s.text}, {"tokens", s.token_ids.size()}, {"finish_reason", name_of(s.reason)}};
  if (!s.stop.empty()) json["stop"] = s.stop;
  return json;
}

Json answer_json(const Prompts& p, size_t index, const std::vector<Sample>& samples) {
  Json json = {{"index", index}};
  if (const std::string& id = p.file.lines[index].id; !id.empty()) json["id"] = parse_json(id, "id");
  json["prompt_tokens"] = p.requests[index].prompt.size();
  if (samples.size() == 1) {
    json.update(brief_sample_json(samples.front()));
  } else {
    json["samples"] = Json::array();
    for (const Sample& s : samples) json["samples"].push_back(brief_sample_json(s));
  }
  return json;
}

// Answers that are finished, until those before them are.
class AnswerLines {
 public:
  AnswerLines(Prompts& prompts, ResultLog* log) : prompts_(prompts), log_(log) {}
  void begin(uint64_t request, size_t index) {
    running_[request] = {index, {}, prompts_.requests[index].num_samples};
    running_[request].samples.resize(static_cast<size_t>(running_[request].left));
  }
  void add(uint64_t request, int64_t sample, Sample finished) {
    tokens_ += static_cast<int64_t>(finished.token_ids.size());
    Running& r = running_.at(request);
    r.samples[static_cast<size_t>(sample)] = std::move(finished);
    if (--r.left > 0) return;
    done_[r.index] = std::move(r.samples);
    running_.erase(request);
    for (auto next = done_.begin(); next != done_.end() && next->first == prompts_.written; next = done_.erase(next)) {
      const Json json = answer_json(prompts_, next->first, next->second);
      log_ ? log_->append(json) : print_out(dump_json(json) + "\n");
      ++prompts_.written;
    }
  }
  int64_t tokens() const { return tokens_; }
  std::vector<uint64_t> running() const {
    std::vector<uint64_t> ids;
    for (const auto& [id, unused] : running_) ids.push_back(id);
    return ids;
  }

 private:
  struct Running {
    size_t index = 0;
    std::vector<Sample> samples;
    int64_t left = 0;
  };
  Prompts& prompts_;
  ResultLog* log_;
  std::map<uint64_t, Running> running_;
  std::map<size_t, std::vector<Sample>> done_;
  int64_t tokens_ = 0;
};

// Until all is written or a stop is asked for. The engine always has the next prompts waiting, no more.
void answer_all(Engine& engine, Prompts& p, AnswerLines& answers, int64_t batch) {
  Progress progress("generate", static_cast<int64_t>(p.requests.size()), real_clock(), {}, "prompts");
  progress.set_start(static_cast<int64_t>(p.written));
  size_t next = p.written;
  try {
    while ((next < p.requests.size() || !engine.idle()) && !stop_requested()) {
      for (; next < p.requests.size() && engine.num_waiting() < batch; ++next)
        answers.begin(engine.submit(p.requests[next]), next);
      for (Event& event : engine.step()) {
        if (!event.finished) continue;
        if (event.finished->error) std::rethrow_exception(event.finished->error);
        answers.add(event.request, event.sample, std::move(*event.finished));
      }
      progress.update(static_cast<int64_t>(p.written));
    }
  } catch (...) {
    for (const uint64_t id : answers.running()) engine.cancel(id);
    throw;
  }
  if (p.written == p.requests.size()) return progress.finish();
  for (const uint64_t id : answers.running()) engine.cancel(id);
}

void check_beside(const Options& options) {
  refuse_beside(options, {"prompt", "prompt-file"}, "there is no other prompt");
  refuse_beside(options, {"json"}, "answers are JSON lines already");
  refuse_beside(options, {"pick"}, "all samples of a prompt are told");
  if (options.flag("fast")) refuse_beside(options, {"fast"}, "answers depend on nothing that runs beside them");
}

}  // namespace

int run_generate_prompts(const Options& options) {
  check_beside(options);
  apply_threads(options);
  const ModelDescription model = model_to_continue(options);
  Prompts prompts = read_prompts(options, model);
  std::optional<ResultLog> log;
  if (options.has("output")) {
    log.emplace(real_io(), options.text("output"), question_of(options, model, prompts));
    tell_notes(log->notes());
    prompts.written = log->done().size();
    if (prompts.written > prompts.requests.size())
      throw Error(ErrorKind::bad_file, "--output {}: {} answers, {} has {} prompts", options.text("output"),
                  prompts.written, options.text("prompts"), prompts.requests.size());
    if (prompts.written > 0)
      log_info("{} of {} prompts are answered already", prompts.written, prompts.requests.size());
  }
  if (prompts.written == prompts.requests.size()) return 0;

  MemoryBudget budget = memory_budget(options);
  budget.bytes -= prompts.bytes();
  if (budget.program >= 0) budget.program += prompts.bytes();
  const KvPlace place = kv_place(options);
  BatchRoom room = choose_room(options, model, prompts, budget, place);
  Arena arena;
  const auto left = static_cast<int64_t>(prompts.requests.size() - prompts.written);
  const InferenceWeights loaded(options, model, room.weights, left * prompts.requests.front().max_tokens, arena,
                                WeightsPass::token,
                                std::min(room.needs.sequences, left * prompts.requests.front().num_samples));
  room.speculation->load(model.spec.vocab, arena);
  room.limits.speculation = room.speculation->settings();
  ModelEngine writer(model, loaded.weights(), room.needs, room.limits, arena, place.directory);
  log_info("{}, up to {} at a time", counted(left, "prompt"), room.batch);
  tell_kv_before(place, model, room.needs, prompts.halfway, loaded);

  const StopSignals signals;
  AnswerLines answers(prompts, log ? &*log : nullptr);
  const int64_t start_ns = real_clock().now_ns();
  naming_bad_weights(model, [&] {
    answer_all(writer.engine, prompts, answers, room.batch);
    return 0;
  });
  if (log) log->sync();
  const double seconds = seconds_between(start_ns, real_clock().now_ns());
  log_info("{} tokens in {}: {:.1f} tok/s", format_with_commas(answers.tokens()), format_seconds(seconds),
           static_cast<double>(answers.tokens()) / std::max(seconds, 1e-9));
  if (const std::string words = speculation_words(writer.engine.speculation()); !words.empty()) log_info("{}", words);
  if (const KvOnDisk* disk = writer.pool.on_disk()) log_info("{}", kv_words(*disk));
  if (prompts.written == prompts.requests.size()) return 0;
  log_info("generate: stopped on request after {} of {} prompts{}", prompts.written, prompts.requests.size(),
           log ? "; the same command goes on" : "; with --output FILE the same command would go on");
  return log ? static_cast<int>(ErrorKind::interrupted) : 128 + stop_signal();
}

}  // namespace tern
