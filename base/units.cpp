#include "base/units.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "base/error.h"
#include "base/text.h"

namespace tern {
namespace {

// Splits "1.5GiB" into 1.5 and "gib"; false if there is no number in front.
bool split_unit(std::string_view text, double& number, std::string& unit) {
  text = trim(text);
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, number, std::chars_format::fixed);
  if (result.ec != std::errc() || !std::isfinite(number)) return false;
  unit = lowercase(trim(std::string_view(result.ptr, static_cast<size_t>(end - result.ptr))));
  return true;
}

std::string three_digits(double x) {
  return x < 9.995 ? fmt::format("{:.2f}", x) : x < 99.95 ? fmt::format("{:.1f}", x) : fmt::format("{:.0f}", x);
}

}  // namespace

std::string format_bytes(int64_t bytes) {
  if (bytes < 0) return "-" + format_bytes(-bytes);
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double x = static_cast<double>(bytes);
  const char* unit = "";
  for (const char* u : {"KiB", "MiB", "GiB", "TiB", "PiB"}) {
    x /= 1024;
    unit = u;
    if (x < 999.5) break;
  }
  return three_digits(x) + " " + unit;
}

std::string format_count(double count) {
  if (!std::isfinite(count)) return "?";
  if (count < 0) return "-" + format_count(-count);
  if (count < 999.5)
    return count == std::floor(count) || count >= 99.95 ? fmt::format("{:.0f}", count) : fmt::format("{:.3g}", count);
  const char* unit = "";
  for (const char* u : {"k", "M", "B", "T"}) {
    count /= 1000;
    unit = u;
    if (count < 999.5) break;
  }
  return fmt::format("{:.{}f}{}", count, count < 99.95 ? 1 : 0, unit);
}

std::string format_seconds(double s) {
  if (!std::isfinite(s)) return "?";
  if (s < 0) return "-" + format_seconds(-s);
  if (s < 0.9995) return s < 0.0009995 ? fmt::format("{:.0f} us", s * 1e6) : fmt::format("{:.3g} ms", s * 1e3);
  if (s < 59.95) return fmt::format("{:.1f} s", s);
  const auto whole = static_cast<int64_t>(std::llround(s));
  if (whole < 3600) return fmt::format("{}m{:02}s", whole / 60, whole % 60);
  if (whole < 86400) return fmt::format("{}h{:02}m", whole / 3600, whole / 60 % 60);
  return fmt::format("{}d{:02}h", whole / 86400, whole / 3600 % 24);
}

std::string format_with_commas(int64_t value) {
  std::string digits = std::to_string(value);
  const size_t first = value < 0 ? 1 : 0;
  for (size_t at = digits.size(); at > first + 3;) digits.insert(at -= 3, ",");
  return digits;
}

std::string counted(int64_t number, std::string_view noun) {
  return fmt::format("{} {}{}", format_with_commas(number), noun, number == 1 ? "" : "s");
}

int64_t parse_bytes(std::string_view text, std::string_view place) {
  double number = 0;
  std::string unit;
  if (!split_unit(text, number, unit))
    throw Error(ErrorKind::usage, "{}: '{}' is no size; write for example 2GiB, 500MB or 1048576", place, text);
  static constexpr std::string_view kPowers = "kmgtp";
  double scale = 1;
  if (!unit.empty() && unit != "b") {
    const size_t power = kPowers.find(unit[0]);
    const std::string_view rest = std::string_view(unit).substr(1);
    if (power == std::string_view::npos || !(rest.empty() || rest == "b" || rest == "i" || rest == "ib"))
      throw Error(ErrorKind::usage, "{}: '{}' has no unit of size; use KiB, MiB, GiB, TiB, or kB, MB, GB, TB", place,
                  text);
    scale = std::pow(rest == "b" ? 1000.0 : 1024.0, static_cast<double>(power + 1));
  }
  const double bytes = number * scale;
  if (bytes < 0 || bytes > 0x1p62)
    throw Error(ErrorKind::usage, "{}: '{}' is not between 0 and 2^62 bytes", place, text);
  if (scale == 1 && bytes != std::floor(bytes))
    throw Error(ErrorKind::usage, "{}: '{}' is not a whole number of bytes", place, text);
  return static_cast<int64_t>(std::llround(bytes));
}

double parse_seconds(std::string_view text, std::string_view place) {
  double number = 0;
  std::string unit;
  double scale = 0;
  if (split_unit(text, number, unit)) {
    if (unit.empty() || unit == "s")
      scale = 1;
    else if (unit == "ms")
      scale = 1e-3;
    else if (unit == "m" || unit == "min")
      scale = 60;
    else if (unit == "h")
      scale = 3600;
    else if (unit == "d")
      scale = 86400;
  }
  if (scale == 0 || number < 0)
    throw Error(ErrorKind::usage, "{}: '{}' is no duration; write for example 90, 90s, 10m, 1.5h or 250ms", place,
                text);
  return number * scale;
}

double parse_count(std::string_view text, std::string_view place) {
  text = trim(text);
  double number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  if (read.ec == std::errc() && std::isfinite(number)) {
    const std::string unit = lowercase(trim(text.substr(static_cast<size_t>(read.ptr - text.data()))));
    if (unit.empty()) return number;
    if (const size_t power = std::string_view("kmbt").find(unit); power != std::string_view::npos && unit.size() == 1)
      return number * std::pow(1000.0, static_cast<double>(power + 1));
  }
  throw Error(ErrorKind::usage, "{}: '{}' is no count; write for example 2e12, 300B or 1.5T", place, text);
}

int64_t parse_integer(std::string_view text, std::string_view place) {
  std::string digits(trim(text));
  for (size_t i = 1; i + 1 < digits.size(); ++i)
    if (digits[i] == '_' && digits[i - 1] >= '0' && digits[i - 1] <= '9' && digits[i + 1] >= '0' &&
        digits[i + 1] <= '9')
      digits.erase(i, 1);
  int64_t value = 0;
  const char* end = digits.data() + digits.size();
  const auto result = std::from_chars(digits.data(), end, value);
  if (result.ec == std::errc::result_out_of_range)
    throw Error(ErrorKind::usage, "{}: {} is beyond the range of 64-bit integers", place, text);
  if (result.ec != std::errc() || result.ptr != end)
    throw Error(ErrorKind::usage, "{}: '{}' is not a whole number{}", place, text,
                result.ptr > digits.data() && *result.ptr != '.' ? "; write its digits, for example 8192" : "");
  return value;
}

double parse_real(std::string_view text, std::string_view place) {
  const std::string_view digits = trim(text);
  double value = 0;
  const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (result.ec != std::errc() || result.ptr != digits.data() + digits.size() || !std::isfinite(value))
    throw Error(ErrorKind::usage, "{}: '{}' is not a finite number", place, text);
  return value;
}

}  // namespace tern
