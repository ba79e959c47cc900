#pragma once
// Messages to the user, as opposed to results: one line each to standard error. A test may set a sink or a file.

#include <fmt/core.h>

#include <string>
#include <string_view>
#include <utility>

namespace tern {

enum class LogLevel { error, warn, info, debug };

/// Sets the least severe level that is still printed. At the start it is the level in TERN_LOG, or "info" if that is not
/// set. log_level_from_name throws usage for an unknown name.
void set_log_level(LogLevel);
LogLevel log_level_from_name(std::string_view);
/// From now on also appends every printed line to this file, as {"time_ns":…,"level":…,"message":…}; "": to no file. Errors: bad_file.
void set_log_file(const std::string& path);

/// Where lines go; the default writes to standard error. Tests set their own sink; nullptr restores the default.
using LogSink = void (*)(LogLevel, const std::string& message);
void set_log_sink(LogSink);

void log_line(LogLevel, const std::string& message);

template <class... Args>
void log_warn(fmt::format_string<Args...> format, Args&&... args) {
  log_line(LogLevel::warn, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
  log_line(LogLevel::info, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void log_debug(fmt::format_string<Args...> format, Args&&... args) {
  log_line(LogLevel::debug, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace tern
