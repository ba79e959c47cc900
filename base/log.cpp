#include "base/log.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>

#include "base/clock.h"
#include "base/error.h"
#include "base/io.h"
#include "base/json.h"
#include "base/progress.h"
#include "base/terminal_text.h"
#include "base/text.h"

namespace tern {
namespace {

constexpr std::string_view kLevelNames[] = {"error", "warn", "info", "debug"};

void write_to_stderr(LogLevel level, const std::string& given) {
  clear_progress_line();
  const std::string message = text_for(STDERR_FILENO, given);
  if (level == LogLevel::info)
    std::fprintf(stderr, "%s\n", message.c_str());
  else
    std::fprintf(stderr, "%s: %s\n", kLevelNames[static_cast<int>(level)].data(), message.c_str());
}

struct State {
  std::mutex mutex;
  LogLevel level = LogLevel::info;
  LogSink sink = write_to_stderr;
  std::unique_ptr<IoFile> file;
  State() {
    const char* name = std::getenv("TERN_LOG");
    if (name != nullptr && *name != '\0') level = log_level_from_name(name);
  }
};

State& state() {
  static State s;
  return s;
}

}  // namespace

LogLevel log_level_from_name(std::string_view name) {
  for (int i = 0; i < 4; ++i)
    if (name == kLevelNames[i]) return static_cast<LogLevel>(i);
  throw Error(ErrorKind::usage, "TERN_LOG: '{}' is no level{}; use error, warn, info or debug", name,
              did_you_mean(name, {"error", "warn", "info", "debug"}));
}

void set_log_level(LogLevel level) {
  const std::lock_guard lock(state().mutex);
  state().level = level;
}

void set_log_file(const std::string& path) {
  const std::lock_guard lock(state().mutex);
  state().file = path.empty() ? nullptr : real_io().open_append(path);
}

void set_log_sink(LogSink sink) {
  const std::lock_guard lock(state().mutex);
  state().sink = sink != nullptr ? sink : write_to_stderr;
}

void log_line(LogLevel level, const std::string& message) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  if (level > s.level) return;
  s.sink(level, message);
  if (s.file)
    s.file->append(fmt::format("{{\"time_ns\":{},\"level\":\"{}\",\"message\":{}}}\n", real_clock().wall_ns(),
                               kLevelNames[static_cast<int>(level)], quote_json(message)));
}

}  // namespace tern
