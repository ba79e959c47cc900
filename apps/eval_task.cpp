#include "apps/eval_task.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "apps/common.h"
#include "apps/eval_run.h"
#include "apps/identity.h"
#include "apps/read_text.h"
#include "apps/signals.h"
#include "apps/task_kinds.h"
#include "apps/weights_options.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mapped_file.h"
#include "base/options.h"
#include "base/progress.h"
#include "base/units.h"
#include "eval/scores.h"
#include "formats/data/text_data.h"
#include "infer/load.h"
#include "kernels/dispatch.h"

namespace tern {
namespace {

struct Figure {
  std::string name, meaning;
  MeanFigure value;
};

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
  q["max_tokens"] = answer_tokens(o);
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

// Of a byte: the file as it is read, JSON, texts of an item; of a line: an item in a list that grows, its id among all ids.
void require_task_fits(const Options& options) {
  constexpr int64_t kPerByte = 1 + kLineBytesPerByte, kPerLine = 3 * sizeof(TaskItem) + 200;
  const std::string& path = options.text("task");
  const MappedFile file(path);
  const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.size());
  require_lines_fit(text, kPerLine, {text_room(options), kPerByte}, path);
}

// Results of an earlier run. Errors: bad_file: they are not those of this task.
void take_log(TaskRun& run) {
  const std::string& output = run.options.text("output");
  open_log(run.options, question_of(run), run.log);
  run.rows = run.log->done();
  const std::vector<TaskItem>& items = run.task.items;
  if (run.rows.size() > items.size())
    throw Error(ErrorKind::bad_file, "--output {}: {} results, {} has {} items", output, run.rows.size(), run.path,
                items.size());
  for (size_t i = 0; i < run.rows.size(); ++i)
    if (run.rows[i].value("id", "") != items[i].id)
      throw Error(ErrorKind::bad_file, "--output {}: result {} is not of item '{}'", output, i + 1, items[i].id);
  if (!run.rows.empty()) log_info("{} of {} items are done already", run.rows.size(), items.size());
}

}  // namespace

void TaskRun::add(const Json& row) {
  if (log) log->append(row);
  rows.push_back(row);
}

std::vector<TaskItem> TaskRun::items(size_t first, size_t count) const {
  const auto begin = task.items.begin() + static_cast<ptrdiff_t>(first);
  return {begin, begin + static_cast<ptrdiff_t>(std::min(count, task.items.size() - first))};
}

int run_task(const Options& options, const ModelDescription& model) {
  require_task_fits(options);
  const Task task = read_task(options.text("task"));
  TaskRun run{.options = options, .model = model, .task = task, .path = options.text("task")};
  run.prefix = bos_in_front(options, *model.tokenizer, run.bos_rule);
  run.prefix_if_empty = model.tokenizer->bos() ? *model.tokenizer->bos() : model.tokenizer->eos().value_or(-1);
  if (task.kind == TaskKind::choice)
    for (const char* flag : {"max-tokens", "extract", "extract-which", "ignore-case", "ignore-punctuation"})
      if (options.given(flag))
        throw Error(ErrorKind::usage, "--{} belongs to answers that are written; {} has choices", flag, run.path);
  if (options.has("output")) take_log(run);
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
