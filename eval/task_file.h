#pragma once
// Tasks: questions with choices, or with an answer to write, one JSON object per line.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tern {

enum class TaskKind : uint8_t { choice, generate };

struct TaskItem {
  std::string id;  // the file's, else the line's number
  int64_t line = 0;
  std::string prompt;
  // choice
  std::vector<std::string> choices;  // as they follow the prompt: with the blank between prompt and choice
  int64_t answer = 0;                // index of the right one
  // generate
  std::vector<std::string> answers;  // any of them is right
  std::vector<std::string> stops;
  std::optional<int64_t> max_tokens;
};

struct Task {
  TaskKind kind = TaskKind::choice;
  std::vector<TaskItem> items;
};

/// {"prompt": text, "choices": [text, text, …], "answer": index} or
/// {"prompt": text, "answer": text or [text, …], "stop": [text, …], "max_tokens": n}; "id" may stand in both. A file
/// holds one kind.
/// Errors  bad_file "PLACE: line N: …": not JSON, an unknown key (with the nearest known one), a missing one, a wrong
///         type, fewer than 2 or more than 1,000 choices, an index without choice, an empty choice, an id
///         that occurs twice, no items.
Task parse_task(std::string_view text, const std::string& place);
Task read_task(const std::string& path);

}  // namespace tern
