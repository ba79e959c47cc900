#include "adapt/accuracy.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "eval/task_run.h"

namespace tern {

bool is_choice_test(const std::string& path) {
  if (!path.ends_with(".jsonl") && !path.ends_with(".ndjson")) return false;
  std::ifstream file(path);
  if (!file) throw Error(ErrorKind::bad_file, "{}: cannot be read; is the path right?", path);
  std::string line;
  while (line.find_first_not_of(" \t\r") == std::string::npos && std::getline(file, line)) {}
  const Json first = line.empty() ? Json() : parse_json(line, path + ": line 1");
  return first.is_object() && first.contains("choices");
}

std::optional<double> choice_accuracy(const TrainSettings& s, TaskModel& model, const std::string& path,
                                      const std::function<bool()>& stopped,
                                      const std::function<void(std::span<const int32_t>)>& before) {
  const Task task = read_task(path);
  if (task.kind != TaskKind::choice)
    throw Error(ErrorKind::bad_file, "{}: its answers are to be written; a stream's test has choices, or is a text",
                path);
  if (!model.in.tokenizer) throw Error(ErrorKind::usage, "{}: has no tokenizer, with which {} is read", s.model, path);
  const Tokenizer& tokenizer = *model.in.tokenizer;
  const int32_t bos = tokenizer.bos().value_or(-1), in_front = tokenizer.adds_bos() ? bos : -1;
  const auto all = static_cast<int64_t>(task.items.size()), count = std::min(all, s.eval_batches * s.batch);
  int64_t right = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (stopped()) return {};
    const std::span<const TaskItem> item(&task.items[static_cast<size_t>(all * i / count)], 1);
    const std::vector<Window> windows = choice_windows(tokenizer, item, model.in.spec.context, in_front,
                                                       bos >= 0 ? bos : tokenizer.eos().value_or(-1), path);
    if (before) before(std::span(windows.front().tokens).first(static_cast<size_t>(windows.front().first_scored)));
    const std::vector<double> losses =
        ragged_losses(model.in.spec, model.weights, windows, std::ssize(windows), model.arena);
    right += pick_choices(choice_scores(item, windows, losses).front()).sum == item.front().answer;
  }
  return static_cast<double>(right) / static_cast<double>(count);
}

}  // namespace tern
