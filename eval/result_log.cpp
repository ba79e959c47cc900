#include "eval/result_log.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"

namespace tern {
namespace {

void same_question(const Json& was, const Json& is, const std::string& path) {
  for (const auto& [key, value] : is.items()) {
    const auto found = was.find(key);
    if (found != was.end() && *found == value) continue;
    throw Error(ErrorKind::usage,
                "--output {}: holds results of another run: {} is {} there, {} here; name another file, or remove it",
                path, key, found == was.end() ? "not" : found->dump(-1, ' ', false, Json::error_handler_t::replace),
                value.dump(-1, ' ', false, Json::error_handler_t::replace));
  }
}

}  // namespace

ResultLog::ResultLog(Io& io, const std::string& path, const Json& question) {
  std::string text = io.stat(path) ? io.read(path) : "";
  if (const size_t whole = text.rfind('\n') + 1; whole != text.size()) {  // npos + 1 is 0
    notes_.push_back(fmt::format("{}: its last line was cut short and is dropped", path));
    io.truncate(path, static_cast<int64_t>(whole));
    text.resize(whole);
  }
  size_t number = 0;
  for (std::string_view rest = text; !rest.empty();) {
    const size_t end = rest.find('\n');
    Json line = parse_json(rest.substr(0, end), fmt::format("{}: line {}", path, ++number));
    rest.remove_prefix(end + 1);
    if (number == 1) {
      if (!line.is_object() || !line.contains("question") || !line["question"].is_object())
        throw Error(ErrorKind::bad_file, "{}: line 1: no results of tern eval; name another --output", path);
      same_question(line["question"], question, path);
    } else {
      if (!line.is_object())
        throw Error(ErrorKind::bad_file, "{}: line {}: {}, expected an object", path, number, line.type_name());
      done_.push_back(std::move(line));
    }
  }
  if (text.empty() && !parent_path(path).empty()) make_dirs(io, parent_path(path));
  file_ = io.open_append(path);
  if (text.empty()) append({{"question", question}});
}

ResultLog::~ResultLog() = default;

void ResultLog::append(const Json& result) { file_->append(dump_json(result) + "\n"); }
void ResultLog::sync() { file_->sync(); }

}  // namespace tern
