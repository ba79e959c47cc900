#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "apps/common.h"
#include "apps/inference_weights.h"
#include "apps/model_engine.h"
#include "apps/signals.h"
#include "apps/task_kinds.h"
#include "base/error.h"
#include "base/options.h"
#include "eval/scores.h"
#include "formats/tokenizer/regex.h"
#include "infer/run.h"

namespace tern {
namespace {

constexpr int64_t kAnswerChunk = 128;

std::vector<int32_t> prompt_of(const TaskRun& run, const TaskItem& item) {
  std::vector<int32_t> tokens;
  if (run.options.text("bos") == "auto") {
    tokens = run.model.tokenizer->encode(item.prompt);  // as tern generate reads a prompt
  } else {
    if (run.prefix >= 0) tokens.push_back(run.prefix);
    run.model.tokenizer->encode_into(item.prompt, {.add_special = false}, tokens);
  }
  if (tokens.empty() && run.prefix_if_empty >= 0) tokens.push_back(run.prefix_if_empty);
  return tokens;
}

Request request_of(const TaskRun& run, const TaskItem& item) {
  Request r;
  r.prompt = prompt_of(run, item);
  r.max_tokens = item.max_tokens.value_or(answer_tokens(run.options));
  r.eos = end_tokens(run.model);
  r.stops = item.stops;
  return r;
}

// Errors: usage, naming the line: a prompt that the model cannot read, or cannot answer in its context.
void check_request(const TaskRun& run, const TaskItem& item, const Request& r) {
  const int64_t context = model_context(run.model), prompt = static_cast<int64_t>(r.prompt.size());
  if (r.prompt.empty())
    throw Error(ErrorKind::usage, "{}: line {}: the prompt is empty, and this tokenizer has neither BOS nor EOS",
                run.path, item.line);
  if (prompt + r.max_tokens > context)
    throw Error(ErrorKind::usage,
                "{}: line {}: the prompt has {} tokens and the answer may have {} ({}), the model reads {}; {} (tern "
                "cuts nothing)",
                run.path, item.line, prompt, r.max_tokens,
                item.max_tokens                 ? "its max_tokens"
                : run.options.has("max-tokens") ? "--max-tokens"
                                                : "the default of --max-tokens",
                context,
                prompt >= context
                    ? std::string("shorten the prompt")
                    : fmt::format("{} {} fits, or shorten the prompt",
                                  item.max_tokens ? "\"max_tokens\":" : "--max-tokens", context - prompt));
  for (const int32_t id : r.prompt)
    if (id >= run.model.spec.vocab)
      throw Error(ErrorKind::usage, "{}: line {}: token {} is outside the model's vocabulary of {}", run.path,
                  item.line, id, run.model.spec.vocab);
}

// Tokens of the longest prompt with its answer. Errors: those of check_request.
int64_t longest_sequence(const TaskRun& run) {
  int64_t longest = 1;
  for (const TaskItem& item : run.task.items) {
    const Request r = request_of(run, item);
    check_request(run, item, r);
    longest = std::max(longest, static_cast<int64_t>(r.prompt.size()) + r.max_tokens);
  }
  return longest;
}

// What of a text is the answer, and when it is right.
struct AnswerRule {
  std::optional<Regex> pattern;  // --extract
  bool last = false;             // of several matches
  MatchRule match;
};
AnswerRule answer_rule(const Options& options) {
  return {options.has("extract") ? std::optional(Regex(options.text("extract"), "--extract")) : std::nullopt,
          options.text("extract-which") == "last",
          {options.flag("ignore-case"), options.flag("ignore-punctuation")}};
}

// The part of a text that counts as the answer; nothing if the pattern is not in it.
std::optional<std::string> extracted(const AnswerRule& rule, const std::string& text) {
  if (!rule.pattern) return text;
  std::vector<TextSpan> matches;
  TextBudget budget(text.size());
  rule.pattern->find_all(text, matches, budget);
  if (matches.empty()) return {};
  const TextSpan m = rule.last ? matches.back() : matches.front();
  return text.substr(m.begin, m.end - m.begin);
}

Json answer_row(const AnswerRule& rule, const TaskItem& item, const Sample& sample) {
  const std::optional<std::string> answer = extracted(rule, sample.text);
  return {{"id", item.id},
          {"text", sample.text},
          {"answer", answer ? Json(*answer) : Json()},
          {"finish_reason", name_of(sample.reason)},
          {"match", answer && exact_match(*answer, item.answers, rule.match)}};
}

}  // namespace

int64_t answer_tokens(const Options& options) {
  return options.has("max-tokens") ? options.integer("max-tokens") : 256;
}

void run_answers(TaskRun& run, const OnItems& on_done) {
  const ModelDescription& model = run.model;
  const Options& options = run.options;
  const AnswerRule rule = answer_rule(options);
  const int64_t longest = longest_sequence(run);
  const int64_t batch = std::min(options.integer("batch"), static_cast<int64_t>(run.task.items.size()));
  const InferenceNeeds needs{.context = longest,
                             .sequences = batch,
                             .page_tokens = 16,
                             .iteration_tokens = kAnswerChunk + batch,
                             .logit_rows = batch,
                             .adapters = model.beside,
                             .kv = kv_option(options, model.dtype)};
  const WeightsChoice choice = choose_weights(options, model, needs, memory_budget(options));
  Arena arena;
  const InferenceWeights loaded(
      options, model, choice, 0, arena, WeightsPass::token,
      std::max<int64_t>(1, std::min(batch, std::ssize(run.task.items) - std::ssize(run.rows))));
  ModelEngine writer(model, loaded.weights(), needs,
                     {.scheduler = {.token_budget = kAnswerChunk + batch, .chunk = kAnswerChunk, .max_running = batch},
                      .context = longest},
                     arena);
  for (size_t first = run.rows.size(); first < run.task.items.size(); first += static_cast<size_t>(batch)) {
    const std::vector<TaskItem> items = run.items(first, static_cast<size_t>(batch));
    std::vector<Request> requests;
    for (const TaskItem& item : items) requests.push_back(request_of(run, item));
    const auto samples = run_requests(
        writer.engine, requests, {}, [] { return stop_requested(); }, nullptr);
    for (size_t i = 0; i < items.size(); ++i) {
      const Sample& sample = samples[i].front();
      if (sample.reason == FinishReason::cancelled) {
        on_done(run.rows.size());
        return;
      }
      run.add(answer_row(rule, items[i], sample));
    }
    if (!on_done(run.rows.size())) return;
  }
}

}  // namespace tern
