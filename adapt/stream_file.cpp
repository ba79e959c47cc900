#include "adapt/stream_file.h"

#include <algorithm>
#include <cctype>

#include "base/error.h"
#include "base/io.h"
#include "base/toml.h"

namespace tern {
namespace {

bool is_plain(const std::string& name) {
  return !name.empty() && name.size() <= 64 &&
         std::ranges::all_of(name, [](unsigned char c) { return std::isalnum(c) || c == '-' || c == '_'; });
}

std::string beside(const std::string& path, const std::string& file) {
  return file.starts_with('/') ? file : join_path(parent_path(path), file);
}

StreamTask task_of(const TomlValue& table, const std::string& path) {
  TomlFields fields(table, path, "task.");
  StreamTask task{.name = fields.text("name"), .data = {}, .test = {}, .steps = {}};
  if (!is_plain(task.name))
    fields.fail("name", "'{}', expected at most 64 letters, digits, - and _, as it names a directory", task.name);
  const auto file = [&](const char* key) {
    const std::string at = beside(path, fields.text(key));
    const auto info = real_io().stat(at);
    if (!info) fields.fail(key, "{} is not there, expected a path relative to this file, or an absolute one", at);
    if (!info->is_directory && !info->is_special && info->size_bytes == 0)
      fields.fail(key, "{} is empty, expected a text", at);
    return at;
  };
  task.data = file("data"), task.test = file("test");
  if (fields.has("steps")) task.steps = fields.integer("steps", 1, int64_t{1} << 40);
  fields.finish();
  return task;
}

}  // namespace

std::vector<StreamTask> read_stream_file(const std::string& path) {
  const TomlValue file = read_toml_file(path);
  TomlFields fields(file, path);
  std::vector<StreamTask> tasks;
  for (const TomlValue& table : fields.require("task", TomlValue::Kind::array).elements) {
    if (table.kind != TomlValue::Kind::table) fields.fail("task", "not a table, expected [[task]]");
    tasks.push_back(task_of(table, path));
    const auto same = [&](const StreamTask& t) { return t.name == tasks.back().name; };
    if (std::ranges::count_if(tasks, same) > 1)
      throw Error(ErrorKind::bad_file, "{}:{}: task.name: '{}' for the second time, expected a name of its own", path,
                  table.line, tasks.back().name);
  }
  fields.finish();
  if (tasks.empty()) fields.fail("task", "none, expected at least one [[task]]");
  return tasks;
}

}  // namespace tern
