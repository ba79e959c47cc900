#pragma once
// The two kinds of task of `tern eval --task`: the model scores choices, or writes answers.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "eval/result_log.h"
#include "eval/task_file.h"

namespace tern {

class Options;
struct ModelDescription;

/// A task, and the state of its run.
struct TaskRun {
  const Options& options;
  const ModelDescription& model;
  const Task& task;
  std::string path, bos_rule;
  int32_t prefix = -1, prefix_if_empty = -1;
  std::optional<ResultLog> log;
  std::vector<Json> rows;  // results so far, in the order of items

  void add(const Json& row);
  /// Items [first, first + count), fewer at the end.
  std::vector<TaskItem> items(size_t first, size_t count) const;
};

/// Takes the number of items that are done; returns false to stop.
using OnItems = std::function<bool(size_t done)>;
/// Run the items that are left, and add their results. They check all items before they read a weight. Errors: usage, naming the line.
void run_choices(TaskRun&, const OnItems&);
void run_answers(TaskRun&, const OnItems&);
/// The most tokens of a written answer, by --max-tokens.
int64_t answer_tokens(const Options&);

}  // namespace tern
