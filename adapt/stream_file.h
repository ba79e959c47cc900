#pragma once
// TASKS.toml: what is learned, in which order, and what each task is judged by.
//
//   [[task]]
//   name = "plays"              # of a directory: letters, digits, - and _
//   data = "plays.txt"          # as --data of tern adapt; relative to this file
//   test = "plays_test.txt"     # its score: bits per byte; of questions with choices (eval/task_file.h) the share that is right
//   steps = 200                 # not given: --steps

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tern {

struct StreamTask {
  std::string name, data, test;
  std::optional<int64_t> steps;
};

/// Errors: bad_file "PATH:LINE: …": no task, a name twice, a key that is not known.
std::vector<StreamTask> read_stream_file(const std::string& path);

}  // namespace tern
