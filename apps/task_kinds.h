#pragma once
// The two kinds of task that `tern eval --task` knows: choices are scored, answers are written.

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

/// A task under way.
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

/// Told how many items are done; false stops.
using OnItems = std::function<bool(size_t done)>;

/// Adds the results of the items that are left. All items are looked at before a weight is read. Errors: usage, naming the line.
void run_choices(TaskRun&, const OnItems&);
void run_answers(TaskRun&, const OnItems&);

/// --max-tokens of written answers.
int64_t answer_tokens(const Options&);

}  // namespace tern
