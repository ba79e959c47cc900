#pragma once
// Reads files of tasks: questions with choices, or questions whose answers are written, one JSON object a line.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tern {

enum class TaskKind : uint8_t { choice, generate };

/// A question.
struct TaskItem {
  std::string id;  // as the file says, else the line's number
  int64_t line = 0;
  std::string prompt;
  // choice
  std::vector<std::string> choices;  // as they follow the prompt, with the blank between prompt and choice
  int64_t answer = 0;                // the index of the right choice
  // generate
  std::vector<std::string> answers;  // any of them is right
  std::vector<std::string> stops;
  std::optional<int64_t> max_tokens;
};

struct Task {
  TaskKind kind = TaskKind::choice;
  std::vector<TaskItem> items;
};

/// Reads lines of the form {"prompt": text, "choices": [text, text, …], "answer": index}, or of the form
/// {"prompt": text, "answer": text or [text, …], "stop": [text, …], "max_tokens": n}. Both may have an "id". All lines of a file have one form.
/// Errors  bad_file "PLACE: line N: …": not JSON; an unknown key (with the most similar known one); a missing key; a wrong type; fewer than 2 or
///         more than 1,000 choices; an index that no choice has; an empty choice; an id that occurs twice; no items.
Task parse_task(std::string_view text, const std::string& place);
/// Reads a file of such lines. Errors: as above; bad_file: it cannot be read.
Task read_task(const std::string& path);

}  // namespace tern
