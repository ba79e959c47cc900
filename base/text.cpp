#include "base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/utf8.h"

namespace tern {
namespace {
constexpr std::string_view kSpace = " \t\r\n";
}

std::string_view trim(std::string_view s) {
  const size_t begin = s.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return s.substr(0, 0);
  return s.substr(begin, s.find_last_not_of(kSpace) - begin + 1);
}

std::string lowercase(std::string_view s) {
  std::string out(s);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

std::string uppercase(std::string_view s) {
  std::string out(s);
  for (char& c : out)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  return out;
}

std::vector<std::string_view> split(std::string_view s, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const size_t at = s.find(separator);
    parts.push_back(s.substr(0, at));
    if (at == std::string_view::npos) return parts;
    s.remove_prefix(at + 1);
  }
}

std::vector<std::string_view> split_words(std::string_view s) {
  std::vector<std::string_view> words;
  for (size_t at = s.find_first_not_of(kSpace); at != std::string_view::npos;) {
    const size_t end = s.find_first_of(kSpace, at);
    words.push_back(s.substr(at, end == std::string_view::npos ? end : end - at));
    at = end == std::string_view::npos ? end : s.find_first_not_of(kSpace, end);
  }
  return words;
}

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string out;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) out += separator;
    out += parts[i];
  }
  return out;
}

std::string replace_all(std::string text, std::string_view from, std::string_view to) {
  std::string result;
  size_t at = 0;
  for (size_t hit; (hit = text.find(from, at)) != std::string::npos; at = hit + from.size()) {
    result.append(text, at, hit - at);
    result += to;
  }
  return result.append(text, at);
}

std::string make_printable(std::string_view s) {
  std::string out;
  for (const char c : make_valid_utf8(s)) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      out += fmt::format("\\x{:02x}", static_cast<unsigned>(c));
    else
      out += c;
  }
  return out;
}

size_t display_width(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<uint8_t>(c) & 0xc0) != 0x80; }));
}

std::vector<std::string> wrap_text(std::string_view text, size_t width) {
  std::vector<std::string> lines;
  std::string line;
  for (const std::string_view word : split_words(text)) {
    if (!line.empty() && display_width(line) + 1 + display_width(word) > width)
      lines.push_back(std::exchange(line, {}));
    if (!line.empty()) line += ' ';
    line += word;
  }
  if (!line.empty() || lines.empty()) lines.push_back(line);
  return lines;
}

std::string labelled(std::string_view label, std::string_view text) {
  constexpr size_t kLabel = 10, kColumns = 120;
  std::string out;
  for (const std::string& line : wrap_text(text, kColumns - kLabel - 1)) {
    const std::string_view word = out.empty() ? label : std::string_view();
    out.append(word).append(kLabel - std::min(kLabel, word.size()) + 1, ' ').append(line) += '\n';
  }
  return out;
}

// Source: optimal string alignment (Damerau 1964, restricted form), three rows.
int edit_distance(std::string_view a, std::string_view b) {
  std::vector<int> before(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) above[j] = static_cast<int>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = static_cast<int>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, above);
    std::swap(above, row);
  }
  return above[b.size()];
}

std::string_view nearest_name(std::string_view word, const std::vector<std::string_view>& candidates) {
  const auto plain = [](std::string_view s) { return replace_all(lowercase(s), "_", "-"); };
  const std::string wanted = plain(word);
  if (wanted.find_first_not_of("0123456789") == std::string::npos) return {};  // a number is no mistyped other one
  std::string_view best;
  // Ties go to the candidate that shares the longer beginning, then to the one of the same length: people mistype late.
  auto best_key = std::pair(1 << 30, std::pair(0, 0));
  for (const std::string_view candidate : candidates) {
    const std::string name = plain(candidate);
    const int distance = edit_distance(wanted, name);
    const auto shared = std::mismatch(wanted.begin(), wanted.end(), name.begin(), name.end()).first - wanted.begin();
    const auto off = static_cast<int>(std::max(wanted.size(), name.size()) - std::min(wanted.size(), name.size()));
    const auto key = std::pair(distance, std::pair(-static_cast<int>(shared), off));
    if (distance <= std::max(1, static_cast<int>(std::max(wanted.size(), name.size())) / 3) && key < best_key) {
      best = candidate;
      best_key = key;
    }
  }
  if (!best.empty() || wanted.size() < 3) return best;
  for (const std::string_view candidate : candidates) {  // an unfinished name: --learning for --learning-rate
    if (!plain(candidate).starts_with(wanted)) continue;
    if (!best.empty()) return {};
    best = candidate;
  }
  return best;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string_view>& candidates,
                         std::string_view prefix) {
  const std::string_view name = nearest_name(word, candidates);
  if (name.empty()) return "";
  return std::string("; did you mean '").append(prefix).append(name).append("'?");
}

}  // namespace tern
