#include "train/arrivals_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/error.h"

namespace tern {

std::string arrivals_text(const std::vector<int32_t>& arrivals) {
  std::string text;
  for (const int32_t worker : arrivals) text += fmt::format("{}\n", worker);
  return text;
}

std::vector<int32_t> parse_arrivals(std::string_view text, const std::string& path, int workers) {
  std::vector<int32_t> arrivals;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    int32_t worker = -1;
    const auto [stop, error] = std::from_chars(text.data() + at, text.data() + end, worker);
    if (error != std::errc() || stop != text.data() + end || worker < 0 || worker >= workers)
      throw Error(ErrorKind::bad_file, "{}:{}: '{}'; expected the number of a worker, 0 to {}", path,
                  arrivals.size() + 1, text.substr(at, end - at), workers - 1);
    arrivals.push_back(worker);
    at = end + 1;
  }
  return arrivals;
}

}  // namespace tern
