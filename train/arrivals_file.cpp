#include "train/arrivals_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <system_error>

#include "base/error.h"

namespace tern {
namespace {

constexpr std::string_view kHead = "# ", kTail = " workers";

// The number of workers in the first line; absent: the text has no such line.
std::optional<int> recorded_workers(std::string_view line) {
  if (!line.starts_with(kHead) || !line.ends_with(kTail)) return {};
  int workers = 0;
  const char* const end = line.data() + line.size() - kTail.size();
  const auto [stop, error] = std::from_chars(line.data() + kHead.size(), end, workers);
  return error == std::errc() && stop == end ? std::optional(workers) : std::nullopt;
}

}  // namespace

std::string arrivals_text(const std::vector<int32_t>& arrivals, int workers) {
  std::string text = fmt::format("{}{}{}\n", kHead, workers, kTail);
  for (const int32_t worker : arrivals) text += fmt::format("{}\n", worker);
  return text;
}

std::vector<int32_t> parse_arrivals(std::string_view text, const std::string& path, int workers) {
  std::vector<int32_t> arrivals;
  size_t line = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    if (const std::optional<int> recorded = recorded_workers(text.substr(at, end - at)); ++line == 1 && recorded) {
      if (*recorded != workers)
        throw Error(ErrorKind::usage,
                    "--replay {}: an order of {} workers, but --workers {}; say --workers {}, or choose another file",
                    path, *recorded, workers, *recorded);
      at = end + 1;
      continue;
    }
    int32_t worker = -1;
    const auto [stop, error] = std::from_chars(text.data() + at, text.data() + end, worker);
    if (error != std::errc() || stop != text.data() + end || worker < 0 || worker >= workers)
      throw Error(ErrorKind::bad_file, "{}:{}: '{}'; expected the number of a worker, 0 to {}", path, line,
                  text.substr(at, end - at), workers - 1);
    arrivals.push_back(worker);
    at = end + 1;
  }
  return arrivals;
}

}  // namespace tern
