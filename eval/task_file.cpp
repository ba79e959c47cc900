#include "eval/task_file.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/mapped_file.h"
#include "base/text.h"

namespace tern {
namespace {

constexpr size_t kMaxLine = size_t{16} << 20, kMaxChoices = 1000, kMaxItems = 10'000'000;

// What other files call our keys; else the nearest.
std::string renamed_to(const std::string& key, const std::vector<std::string_view>& known) {
  constexpr std::pair<std::string_view, std::string_view> kOthers[] = {
      {"question", "prompt"},  {"query", "prompt"},  {"context", "prompt"},  {"input", "prompt"},
      {"text", "prompt"},      {"label", "answer"},  {"gold", "answer"},     {"target", "answer"},
      {"answerKey", "answer"}, {"output", "answer"}, {"endings", "choices"}, {"options", "choices"}};
  for (const auto& [theirs, ours] : kOthers)
    if (key == theirs) return fmt::format("; rename it to '{}'", ours);
  return key.size() > 60 ? "" : did_you_mean(key, known);
}

class ItemReader {
 public:
  ItemReader(std::string_view line, const std::string& place)
      : place_(place), json_(parse_json(line, place, {.max_bytes = kMaxLine})) {
    if (!json_.is_object())
      throw Error(ErrorKind::bad_file, "{}: {}, expected an object {{\"prompt\": …, \"answer\": …}}", place,
                  json_.type_name());
    const std::vector<std::string_view> known = {"id", "prompt", "choices", "answer", "stop", "max_tokens"};
    for (const auto& [key, value] : json_.items())
      if (std::find(known.begin(), known.end(), key) == known.end())
        throw Error(ErrorKind::bad_file,
                    "{}: unknown key '{}'{}; a task has id, prompt, choices, answer, stop and "
                    "max_tokens",
                    place, make_printable(key.substr(0, 60)), renamed_to(key, known));
  }

  TaskItem read(TaskKind& kind, int64_t line) {
    TaskItem item;
    item.line = line;
    item.id = std::to_string(line);
    if (json_.contains("id")) item.id = json_["id"].is_number_integer() ? json_["id"].dump() : text("id");
    item.prompt = text("prompt");
    kind = json_.contains("choices") ? TaskKind::choice : TaskKind::generate;
    if (kind == TaskKind::choice)
      read_choices(item);
    else
      read_answers(item);
    return item;
  }

 private:
  template <class... Args>
  [[noreturn]] void fail(const char* key, fmt::format_string<Args...> format, Args&&... args) const {
    throw Error(ErrorKind::bad_file, "{}: {}: {}", place_, key, fmt::format(format, std::forward<Args>(args)...));
  }
  const Json& member(const char* key) const {
    const auto found = json_.find(key);
    if (found == json_.end()) fail(key, "is missing");
    return *found;
  }
  std::string text(const char* key) const {
    if (!member(key).is_string()) fail(key, "{}, expected a text", member(key).type_name());
    return member(key).get<std::string>();
  }
  std::vector<std::string> texts(const char* key) const {
    const Json& list = member(key);
    if (!list.is_array()) fail(key, "{}, expected a list of texts", list.type_name());
    std::vector<std::string> out;
    for (const Json& entry : list) {
      if (!entry.is_string()) fail(key, "holds {}, expected texts", entry.type_name());
      out.push_back(entry.get<std::string>());
    }
    return out;
  }
  int64_t integer(const char* key, int64_t low, int64_t high) const {
    const Json& value = member(key);
    const bool whole = value.is_number_integer() &&
                       !(value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX));
    if (!whole || value.get<int64_t>() < low || value.get<int64_t>() > high)
      fail(key, "{}, expected a whole number from {} to {}", value.is_number() ? value.dump() : value.type_name(), low,
           high);
    return value.get<int64_t>();
  }
  void read_choices(TaskItem& item) const {
    item.choices = texts("choices");
    if (item.choices.size() < 2 || item.choices.size() > kMaxChoices)
      fail("choices", "{} of them, expected 2 to {}", item.choices.size(), kMaxChoices);
    for (const std::string& choice : item.choices)
      if (choice.empty()) fail("choices", "one is empty, which no token can be scored for");
    item.answer = integer("answer", 0, static_cast<int64_t>(item.choices.size()) - 1);
    for (const char* key : {"stop", "max_tokens"})
      if (json_.contains(key)) fail(key, "belongs to questions without choices");
  }
  void read_answers(TaskItem& item) const {
    item.answers = member("answer").is_array() ? texts("answer") : std::vector{text("answer")};
    if (item.answers.empty()) fail("answer", "an empty list; expected at least one text");
    if (json_.contains("stop")) item.stops = texts("stop");
    if (json_.contains("max_tokens")) item.max_tokens = integer("max_tokens", 1, INT32_MAX);
  }

  const std::string& place_;
  Json json_;
};

}  // namespace

Task parse_task(std::string_view text, const std::string& place) {
  Task task;
  std::unordered_set<std::string> ids;
  int64_t line = 0;
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view one = trim(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    ++line;
    if (one.empty()) continue;
    const std::string where = fmt::format("{}: line {}", place, line);
    if (one.size() > kMaxLine)
      throw Error(ErrorKind::bad_file, "{}: {} bytes, at most {} are read", where, one.size(), kMaxLine);
    TaskKind kind;
    TaskItem item = ItemReader(one, where).read(kind, line);
    if (!task.items.empty() && kind != task.kind)
      throw Error(ErrorKind::bad_file, "{}: {} choices, unlike line {}; put the two kinds into two files", where,
                  kind == TaskKind::choice ? "has" : "has no", task.items.front().line);
    if (!ids.insert(item.id).second)
      throw Error(ErrorKind::bad_file, "{}: id '{}' stood there before", where, make_printable(item.id.substr(0, 60)));
    if (task.items.size() >= kMaxItems) throw Error(ErrorKind::bad_file, "{}: more than {} items", where, kMaxItems);
    task.kind = kind;
    task.items.push_back(std::move(item));
  }
  if (task.items.empty()) throw Error(ErrorKind::bad_file, "{}: no items; expected one JSON object per line", place);
  return task;
}

Task read_task(const std::string& path) {
  const MappedFile file(path);
  return parse_task({reinterpret_cast<const char*>(file.bytes().data()), file.size()}, path);
}

}  // namespace tern
