#include "eval/result_log.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/crc32c.h"
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

// `{"loss":1.5,"crc32c":"0123abcd"}`: of the object without it, going on from the line before.
constexpr std::string_view kSum = ",\"crc32c\":\"";
constexpr size_t kSumBytes = kSum.size() + 10;  // eight digits, quote, brace

std::string summed(const Json& result, uint32_t& crc) {
  std::string line = dump_json(result);
  TERN_CHECK(line.size() > 2 && line.ends_with('}'), "ResultLog: {} is no object with members", line);
  crc = crc32c(line, crc);
  line.pop_back();
  return line + fmt::format("{}{:08x}\"}}", kSum, crc);
}

// The object without its sum. Errors: bad_file.
std::string unsummed(std::string_view line, uint32_t& crc, const std::string& place) {
  const size_t at = line.size() - std::min(line.size(), kSumBytes);
  std::string object = std::string(line.substr(0, at)) + "}";
  crc = crc32c(object, crc);
  if (line.substr(at) == fmt::format("{}{:08x}\"}}", kSum, crc)) return object;
  throw Error(ErrorKind::bad_file,
              "{}: not as tern wrote it (its checksum says so); remove this line and all behind it, and the same "
              "command computes them again, or name another --output",
              place);
}

}  // namespace

ResultLog::ResultLog(Io& io, const std::string& path, const Json& question) {
  if (!parent_path(path).empty()) make_dirs(io, parent_path(path));
  if (const auto there = io.stat(path); there && (there->is_special || there->is_directory || there->is_symlink))
    throw Error(ErrorKind::usage, "--output {}: no plain file; name another", path);
  file_ = io.open_append(path);
  lock_ = io.lock_existing(path);
  if (!lock_)
    throw Error(ErrorKind::usage, "--output {}: another tern writes it; wait for it or name another file", path);
  std::string text = io.read(path);
  if (const size_t whole = text.rfind('\n') + 1; whole != text.size()) {  // npos + 1 is 0
    notes_.push_back(fmt::format("{}: its last line was cut short and is dropped", path));
    io.truncate(path, static_cast<int64_t>(whole));
    text.resize(whole);
  }
  size_t number = 0;
  for (std::string_view rest = text; !rest.empty();) {
    const size_t end = rest.find('\n');
    const std::string place = fmt::format("{}: line {}", path, ++number);
    if (number == 1 && !rest.starts_with("{\"question\":"))
      throw Error(ErrorKind::bad_file, "{}: no results of this command; name another --output", place);
    Json line = parse_json(unsummed(rest.substr(0, end), crc_, place), place);
    rest.remove_prefix(end + 1);
    if (number == 1) {
      if (!line.is_object() || !line.contains("question") || !line["question"].is_object())
        throw Error(ErrorKind::bad_file, "{}: line 1: no results of this command; name another --output", path);
      same_question(line["question"], question, path);
    } else {
      if (!line.is_object())
        throw Error(ErrorKind::bad_file, "{}: line {}: {}, expected an object", path, number, line.type_name());
      done_.push_back(std::move(line));
    }
  }
  file_ = io.open_append(path);  // behind what is left of it
  if (text.empty()) append({{"question", question}});
}

ResultLog::~ResultLog() = default;

void ResultLog::append(const Json& result) { file_->append(summed(result, crc_) + "\n"); }
void ResultLog::sync() { file_->sync(); }

}  // namespace tern
