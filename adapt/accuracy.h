#pragma once
// A task whose test is questions with choices: the share that the model gets right.

#include <functional>
#include <optional>
#include <span>
#include <string>

#include "adapt/task_model.h"

namespace tern {

/// Whether a test is a file of questions (eval/task_file.h) and no text: JSONL whose first line has `choices`. Errors: bad_file: not there.
bool is_choice_test(const std::string& path);

/// The share of questions whose right choice is the likeliest one (`acc` of tern eval --task), over at most --eval-batches batches of
/// questions spread over the file. `before` is called with the prompt of each question, for models that change with it. None: `stopped`.
/// Errors  bad_file, usage: those of read_task and choice_windows; bad_file: questions whose answers must be written.
std::optional<double> choice_accuracy(const TrainSettings&, TaskModel&, const std::string& path,
                                      const std::function<bool()>& stopped,
                                      const std::function<void(std::span<const int32_t>)>& before = {});

}  // namespace tern
