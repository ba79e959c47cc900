#pragma once
// TASKS.toml: the tasks of a stream in their order, each with its data and its test.
//
//   [[task]]
//   name = "plays"              # of a directory: letters, digits, - and _
//   data = "plays.txt"          # as --data of tern adapt; relative to this file
//   test = "plays_test.txt"     # a text, scored in bits per byte; or questions with choices (eval/task_file.h), scored by the share of
//                               # right answers
//   steps = 200                 # if it is not given: --steps

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tern {

/// A task. Paths are as this process can open them.
struct StreamTask {
  std::string name, data, test;
  std::optional<int64_t> steps;
};
/// The tasks of such a file, in order. Errors: bad_file "PATH:LINE: …": no task, two tasks of one name, an unknown key, data or a test that
/// is not there or empty.
std::vector<StreamTask> read_stream_file(const std::string& path);

}  // namespace tern
