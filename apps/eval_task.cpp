#include "apps/eval_task.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "apps/common.h"
#include "apps/eval_windows.h"
#include "apps/inference_weights.h"
#include "apps/signals.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/options.h"
#include "base/progress.h"
#include "base/units.h"
#include "eval/result_log.h"
#include "eval/task_run.h"
#include "formats/tokenizer/regex.h"
#include "infer/load.h"
#include "infer/run.h"
#include "kernels/dispatch.h"
#include "model/adapter_files.h"

namespace tern {
namespace {

struct Figure {
  std::string name, meaning;
  MeanFigure value;
};

// What both kinds of task need.
struct TaskRun {
  const Options& options;
  const ModelDescription& model;
  const Task& task;
  std::string path, bos_rule;
  int32_t prefix = -1, prefix_if_empty = -1;
  std::optional<ResultLog> log;
  std::vector<Json> rows;  // results so far, in the order of items

  void add(const Json& row) {
    if (log) log->append(row);
    rows.push_back(row);
  }
};

std::vector<TaskItem> slice(const Task& task, size_t first, size_t count) {
  const auto begin = task.items.begin() + static_cast<ptrdiff_t>(first);
  return {begin, begin + static_cast<ptrdiff_t>(std::min(count, task.items.size() - first))};
}

Json choice_row(const TaskItem& item, const std::vector<ChoiceScore>& scores) {
  const ChoicePick pick = pick_choices(scores);
  Json row = {{"id", item.id},
              {"answer", item.answer},
              {"pick", pick.sum},
              {"pick_token", pick.per_token},
              {"pick_byte", pick.per_byte},
              {"pick_char", pick.per_character},
              {"ll", Json::array()},
              {"tokens", Json::array()}};
  for (const ChoiceScore& s : scores) {
    row["ll"].push_back(s.log_likelihood);
    row["tokens"].push_back(s.tokens);
  }
  return row;
}

void run_choices(TaskRun& run, const std::function<bool(size_t)>& on_done) {
  const ModelDescription& model = run.model;
  const auto windows_of = [&](const std::vector<TaskItem>& items) {
    return choice_windows(*model.tokenizer, items, model_context(model), run.prefix, run.prefix_if_empty, run.path);
  };
  // All are encoded once before a weight is read: what cannot be asked is said at once.
  int64_t longest = 1, most = 1;
  for (size_t i = 0; i < run.task.items.size(); ++i) {
    const auto windows = windows_of(slice(run.task, i, 1));
    most = std::max(most, static_cast<int64_t>(windows.size()));
    for (const Window& w : windows) longest = std::max(longest, static_cast<int64_t>(w.tokens.size()) - 1);
  }
  const int64_t batch = run.options.integer("batch");
  const std::optional<KvType> kv = kv_option(run.options, model.dtype);
  const InferenceNeeds needs{
      .context = longest, .sequences = 0, .page_tokens = 16, .iteration_tokens = batch * longest, .logit_rows = 0};
  const WeightsChoice choice = choose_weights(run.options, model, needs, memory_budget(run.options));
  Arena arena;
  const InferenceWeights loaded(run.options, model, choice, 0, arena, WeightsPass::batch);
  const auto at_once = static_cast<size_t>(std::max<int64_t>(1, batch / most));
  for (size_t first = run.rows.size(); first < run.task.items.size(); first += at_once) {
    const std::vector<TaskItem> items = slice(run.task, first, at_once);
    const std::vector<Window> windows = windows_of(items);
    const auto scores =
        choice_scores(items, windows, ragged_losses(model.spec, loaded.weights(), windows, batch, arena, kv));
    for (size_t i = 0; i < items.size(); ++i) run.add(choice_row(items[i], scores[i]));
    if (!on_done(run.rows.size())) return;
  }
}

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

// The part of a text that counts as the answer; nothing if the pattern is not in it.
std::optional<std::string> extracted(const std::optional<Regex>& pattern, bool last, const std::string& text) {
  if (!pattern) return text;
  std::vector<TextSpan> matches;
  TextBudget budget(text.size());
  pattern->find_all(text, matches, budget);
  if (matches.empty()) return {};
  const TextSpan m = last ? matches.back() : matches.front();
  return text.substr(m.begin, m.end - m.begin);
}

void run_answers(TaskRun& run, const std::function<bool(size_t)>& on_done) {
  const ModelDescription& model = run.model;
  const Options& options = run.options;
  const std::optional<Regex> pattern =
      options.has("extract") ? std::optional(Regex(options.text("extract"), "--extract")) : std::nullopt;
  const bool last = options.text("extract-which") == "last";
  const MatchRule rule{options.flag("ignore-case"), options.flag("ignore-punctuation")};
  const auto request_of = [&](const TaskItem& item) {
    Request r;
    r.prompt = prompt_of(run, item);
    r.max_tokens = item.max_tokens.value_or(options.has("max-tokens") ? options.integer("max-tokens") : 256);
    r.eos = end_tokens(model);
    r.stops = item.stops;
    return r;
  };
  const int64_t context = model_context(model);
  int64_t longest = 1;
  for (const TaskItem& item : run.task.items) {
    const Request r = request_of(item);
    const auto length = static_cast<int64_t>(r.prompt.size()) + r.max_tokens;
    if (r.prompt.empty())
      throw Error(ErrorKind::usage, "{}: line {}: the prompt is empty, and this tokenizer has neither BOS nor EOS",
                  run.path, item.line);
    if (length > context)
      throw Error(
          ErrorKind::usage,
          "{}: line {}: the prompt has {} tokens and the answer may have {} ({}), the model reads {}; {} (tern "
          "cuts nothing)",
          run.path, item.line, r.prompt.size(), r.max_tokens,
          item.max_tokens             ? "its max_tokens"
          : options.has("max-tokens") ? "--max-tokens"
                                      : "the default of --max-tokens",
          context,
          static_cast<int64_t>(r.prompt.size()) >= context
              ? std::string("shorten the prompt")
              : fmt::format("{} {} fits, or shorten the prompt", item.max_tokens ? "\"max_tokens\":" : "--max-tokens",
                            context - static_cast<int64_t>(r.prompt.size())));
    for (const int32_t id : r.prompt)
      if (id >= model.spec.vocab)
        throw Error(ErrorKind::usage, "{}: line {}: token {} is outside the model's vocabulary of {}", run.path,
                    item.line, id, model.spec.vocab);
    longest = std::max(longest, length);
  }
  const int64_t batch = std::min(options.integer("batch"), static_cast<int64_t>(run.task.items.size()));
  const InferenceNeeds needs{.context = longest,
                             .sequences = batch,
                             .page_tokens = 16,
                             .iteration_tokens = 128 + batch,
                             .logit_rows = batch,
                             .kv = kv_option(options, model.dtype)};
  const WeightsChoice choice = choose_weights(run.options, model, needs, memory_budget(run.options));
  Arena arena;
  const InferenceWeights loaded(run.options, model, choice, 0, arena);
  const bool turned = model.spec.rope.kind != RopeKind::none;
  const RopeTable rope = turned ? rope_table(model.spec, longest, longest) : RopeTable{};
  KvPool pool(kv_shape(model.spec, model.dtype, needs), kv_pages(needs), arena);
  Engine engine(pool, model_executor(model.spec, loaded.weights(), turned ? &rope : nullptr, arena), &*model.tokenizer,
                {.scheduler = {.token_budget = 128 + batch, .chunk = 128, .max_running = batch}, .context = longest},
                real_clock());
  for (size_t first = run.rows.size(); first < run.task.items.size(); first += static_cast<size_t>(batch)) {
    const std::vector<TaskItem> items = slice(run.task, first, static_cast<size_t>(batch));
    std::vector<Request> requests;
    for (const TaskItem& item : items) requests.push_back(request_of(item));
    const auto samples = run_requests(
        engine, requests, {}, [] { return stop_requested(); }, nullptr);
    for (size_t i = 0; i < items.size(); ++i) {
      const Sample& sample = samples[i].front();
      if (sample.reason == FinishReason::cancelled) {
        on_done(run.rows.size());
        return;
      }
      const std::optional<std::string> answer = extracted(pattern, last, sample.text);
      run.add({{"id", items[i].id},
               {"text", sample.text},
               {"answer", answer ? Json(*answer) : Json()},
               {"finish_reason", name_of(sample.reason)},
               {"match", answer && exact_match(*answer, items[i].answers, rule)}});
    }
    if (!on_done(run.rows.size())) return;
  }
}

std::vector<Figure> figures_of(const TaskRun& run) {
  const auto share = [&](const std::string& name, const std::string& meaning, auto&& hit) {
    std::vector<double> values;
    for (const Json& row : run.rows) values.push_back(hit(row) ? 1.0 : 0.0);
    return Figure{name, meaning, mean_of(values)};
  };
  const auto picks = [&](const char* key) {
    return [key](const Json& row) { return row.at(key) == row.at("answer"); };
  };
  if (run.task.kind == TaskKind::choice)
    return {share("acc", "largest log-likelihood", picks("pick")),
            share("acc_norm", "largest per character", picks("pick_char")),
            share("acc_bytes", "largest per byte", picks("pick_byte")),
            share("acc_tokens", "largest per token", picks("pick_token"))};
  return {
      share("exact_match", "the answer, word for word", [](const Json& row) { return row.at("match").get<bool>(); }),
      share("length_stops", "answers cut at --max-tokens",
            [](const Json& row) { return row.at("finish_reason") == "length"; })};
}

Json question_of(const TaskRun& run) {
  Json q = {{"model", weights_identity(run.model)},
            {"task", file_identity(run.path)},
            {"items", run.task.items.size()},
            {"bos", run.bos_rule},
            {"dtype", name_of(run.model.dtype)}};
  const Options& o = run.options;
  if (in_integers(o)) q["arithmetic"] = o.text("arithmetic");
  if (const auto kv = kv_option(o, run.model.dtype)) q["kv_dtype"] = name_of(*kv);
  if (run.task.kind == TaskKind::choice) return q;
  q["max_tokens"] = o.has("max-tokens") ? o.integer("max-tokens") : 256;
  q["extract"] = o.has("extract") ? Json(o.text("extract")) : Json();
  q["extract_which"] = o.text("extract-which");
  q["ignore_case"] = o.flag("ignore-case");
  q["ignore_punctuation"] = o.flag("ignore-punctuation");
  return q;
}

void report(const TaskRun& run, double seconds) {
  const std::vector<Figure> figures = figures_of(run);
  const char* kind = run.task.kind == TaskKind::choice ? "multiple choice" : "exact match";
  if (run.options.flag("json")) {
    Json out = {{"model", run.options.positional("MODEL")},
                {"task", run.path},
                {"kind", kind},
                {"items", run.rows.size()},
                {"bos", run.bos_rule},
                {"dtype", name_of(run.model.dtype)},
                {"kv_dtype", name_of(kv_option(run.options, run.model.dtype).value_or(kv_type_of(run.model.dtype)))},
                {"arithmetic", run.options.text("arithmetic")},
                {"instruction_set", name_of(active_isa())}};
    for (const Figure& f : figures)
      out["metrics"][f.name] = {{"value", f.value.mean}, {"stderr", f.value.standard_error}};
    out["seconds"] = seconds;
    out["results"] = run.rows;
    print_json(out);
    return;
  }
  print_out(fmt::format("{}: {}, {}, {}\n", run.path, kind, counted(static_cast<int64_t>(run.rows.size()), "item"),
                        run.bos_rule == "none" ? "nothing in front" : run.bos_rule));
  for (const Figure& f : figures)
    print_out(fmt::format("{:<13} {:.4f} ± {:.4f}   {}\n", f.name, f.value.mean, f.value.standard_error, f.meaning));
}

}  // namespace

void check_eval_flags(const Options& options) {
  const bool data = options.has("data"), task = options.has("task"), reference = options.has("reference");
  if (data && task) throw Error(ErrorKind::usage, "--data and --task are both given; give one of them");
  if (!data && !task)
    throw Error(ErrorKind::usage,
                "--data is not given; name a text, JSONL or token file to measure on, or questions with --task");
  if (task && reference) throw Error(ErrorKind::usage, "--reference belongs to --data; a task has its answers");
  for (const char* flag : {"convention", "window", "stride"})
    if (task && options.given(flag)) throw Error(ErrorKind::usage, "--{} belongs to --data, not to --task", flag);
  for (const char* flag : {"extract", "extract-which", "ignore-case", "ignore-punctuation"})
    if (data && options.given(flag)) throw Error(ErrorKind::usage, "--{} belongs to --task, not to --data", flag);
  if (options.given("extract-which") && !options.has("extract"))
    throw Error(ErrorKind::usage, "--extract-which does nothing without --extract");
}

Json file_identity(const std::string& path) {
  const auto info = real_io().stat(path);
  std::error_code ignored;
  const std::filesystem::path full = std::filesystem::canonical(path, ignored);
  return {{"path", ignored ? path : full.string()},
          {"bytes", info ? info->size_bytes : 0},
          {"modified_ns", info ? info->modified_ns : 0}};
}

Json weights_identity(const ModelDescription& model) {
  Json identity = file_identity(model.dir.weights);
  if (!model.adapter.empty()) {
    identity["adapter"] = file_identity(peft_weights_file(model.adapter));
    identity["adapter_config"] = file_identity(peft_config_file(model.adapter));
  }
  return identity;
}

int run_task(const Options& options, const ModelDescription& model) {
  const Task task = read_task(options.text("task"));
  TaskRun run{.options = options, .model = model, .task = task, .path = options.text("task")};
  run.prefix = bos_in_front(options, *model.tokenizer, run.bos_rule);
  run.prefix_if_empty = model.tokenizer->bos() ? *model.tokenizer->bos() : model.tokenizer->eos().value_or(-1);
  if (task.kind == TaskKind::choice)
    for (const char* flag : {"max-tokens", "extract", "extract-which", "ignore-case", "ignore-punctuation"})
      if (options.given(flag))
        throw Error(ErrorKind::usage, "--{} belongs to answers that are written; {} has choices", flag, run.path);
  if (options.has("output")) {
    run.log.emplace(real_io(), options.text("output"), question_of(run));
    tell_notes(run.log->notes());
    run.rows = run.log->done();
    if (run.rows.size() > task.items.size())
      throw Error(ErrorKind::bad_file, "--output {}: {} results, {} has {} items", options.text("output"),
                  run.rows.size(), run.path, task.items.size());
    for (size_t i = 0; i < run.rows.size(); ++i)
      if (run.rows[i].value("id", "") != task.items[i].id)
        throw Error(ErrorKind::bad_file, "--output {}: result {} is not of item '{}'", options.text("output"), i + 1,
                    task.items[i].id);
    if (!run.rows.empty()) log_info("{} of {} items are done already", run.rows.size(), task.items.size());
  }
  const StopSignals signals;
  const int64_t start_ns = real_clock().now_ns();
  {
    Progress progress("eval", static_cast<int64_t>(task.items.size()), real_clock(), {}, "items");
    progress.set_start(static_cast<int64_t>(run.rows.size()));
    const auto on_done = [&](size_t done) {
      progress.update(static_cast<int64_t>(done));
      return !stop_requested();
    };
    if (run.rows.size() < task.items.size())
      task.kind == TaskKind::choice ? run_choices(run, on_done) : run_answers(run, on_done);
    if (run.rows.size() == task.items.size()) progress.finish();
  }
  if (run.rows.size() < task.items.size()) {
    log_info("eval: stopped on request after {} of {} items{}", run.rows.size(), task.items.size(),
             run.log ? "; the same command goes on" : "; with --output FILE the same command would go on");
    return run.log ? static_cast<int>(ErrorKind::interrupted) : 128 + stop_signal();
  }
  report(run, seconds_between(start_ns, real_clock().now_ns()));
  return 0;
}

}  // namespace tern
