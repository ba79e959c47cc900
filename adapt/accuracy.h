#pragma once
// The test of a task that is a file of questions with choices: the share of questions that a model answers right.

#include <functional>
#include <optional>
#include <span>
#include <string>

#include "adapt/task_model.h"

namespace tern {

/// Whether a test is a file of questions (eval/task_file.h) rather than a text: JSONL whose first line has `choices`. Errors: bad_file: the
/// file cannot be read.
bool is_choice_test(const std::string& path);

/// The share of questions whose right choice is the likeliest one (`acc` of tern eval --task), from 0 to 1. It asks at most --eval-batches
/// batches of questions, spread over the file. None: `stopped` became true. `before` is called with the prompt of each question, for models
/// that change with the prompt.
/// Errors  those of read_task and choice_windows; bad_file: questions whose answers must be written; usage: the model has no tokenizer.
std::optional<double> choice_accuracy(const TrainSettings&, TaskModel&, const std::string& path,
                                      const std::function<bool()>& stopped,
                                      const std::function<void(std::span<const int32_t>)>& before = {});

}  // namespace tern
