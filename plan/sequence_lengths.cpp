#include "plan/sequence_lengths.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <unordered_map>

#include "base/crc32c.h"
#include "base/error.h"
#include "base/io.h"
#include "base/text.h"

namespace tern {
namespace {

constexpr int64_t kMostBytes = int64_t{64} << 20;
constexpr size_t kMostRows = size_t{1} << 20;
constexpr int64_t kMostLength = (int64_t{1} << 31) - 1;
constexpr int64_t kMostCount = int64_t{1} << 53;
constexpr int64_t kMostSum = int64_t{1} << 62;

struct Line {
  std::string_view text, place;
  int64_t number = 0;

  template <class... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    throw Error(ErrorKind::bad_file, "{}:{}: {}", place, number, fmt::format(format, std::forward<Args>(args)...));
  }
  int64_t whole(std::string_view cell, std::string_view what, int64_t least, int64_t most) const {
    int64_t n = 0;
    const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), n);
    if (error == std::errc::invalid_argument || end != cell.data() + cell.size())
      fail("'{}' is no {} in whole numbers; expected a line LENGTH or LENGTH,COUNT", make_printable(cell.substr(0, 40)),
           what);
    if (error != std::errc() || n < least || n > most)
      fail("{} {}, expected {} to {}", what, cell.substr(0, 40), least, most);
    return n;
  }
};

// Letters and no digit: names of columns.
bool is_header(std::string_view line) {
  return std::none_of(line.begin(), line.end(), [](char c) { return c >= '0' && c <= '9'; }) &&
         std::any_of(line.begin(), line.end(), [](char c) { return (c | 32) >= 'a' && (c | 32) <= 'z'; });
}

[[noreturn]] void too_large(std::string_view place, int64_t bytes) {
  throw Error(ErrorKind::bad_file, "{}: {} bytes, at most {} are read; give equal lengths once, as LENGTH,COUNT", place,
              bytes, kMostBytes);
}

}  // namespace

int64_t SequenceLengths::quantile(double share) const {
  const double wanted = share * static_cast<double>(sequences);
  int64_t so_far = 0;
  for (const LengthCount& r : rows)
    if (so_far += r.count; static_cast<double>(so_far) >= wanted) return r.length;
  return longest();
}

uint32_t SequenceLengths::crc() const { return crc32c(std::as_bytes(std::span(rows))); }

SequenceLengths sequence_lengths(std::vector<LengthCount> rows) {
  std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.length < b.length; });
  SequenceLengths out;
  for (const LengthCount& r : rows) {
    TERN_CHECK(r.length >= 1 && r.length <= kMostLength && r.count >= 1, "sequence_lengths: {} of {}", r.count,
               r.length);
    const bool room = r.count <= (kMostSum - out.tokens) / r.length;
    TERN_CHECK(room, "sequence_lengths: more than 2^62 tokens");
    out.sequences += r.count, out.tokens += r.count * r.length;
    if (!out.rows.empty() && out.rows.back().length == r.length)
      out.rows.back().count += r.count;
    else
      out.rows.push_back(r);
  }
  TERN_CHECK(!out.rows.empty(), "sequence_lengths: no rows");
  return out;
}

SequenceLengths parse_sequence_lengths(std::string_view text, std::string_view place) {
  if (static_cast<int64_t>(text.size()) > kMostBytes) too_large(place, static_cast<int64_t>(text.size()));
  std::unordered_map<int64_t, int64_t> counts;
  int64_t tokens = 0;
  bool first = true;
  Line line{.text = {}, .place = place, .number = 0};
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    line.text = trim(text.substr(at, end - at)), ++line.number, at = end + 1;
    if (line.text.empty()) continue;
    const bool header = first && is_header(line.text);
    first = false;
    if (header) continue;
    const size_t comma = line.text.find(',');
    const int64_t length = line.whole(trim(line.text.substr(0, comma)), "length", 1, kMostLength);
    const int64_t count =
        comma == std::string_view::npos ? 1 : line.whole(trim(line.text.substr(comma + 1)), "count", 0, kMostCount);
    if (count > (kMostSum - tokens) / length) line.fail("more than {} tokens so far", kMostSum);
    if (count == 0) continue;
    tokens += count * length;
    counts[length] += count;
    if (counts.size() > kMostRows) line.fail("more than {} different lengths; round them", kMostRows);
  }
  if (counts.empty())
    throw Error(ErrorKind::bad_file, "{}: no length in it; expected lines LENGTH or LENGTH,COUNT", place);
  std::vector<LengthCount> rows;
  rows.reserve(counts.size());
  for (const auto& [length, count] : counts) rows.push_back({length, count});
  return sequence_lengths(std::move(rows));
}

SequenceLengths read_sequence_lengths(const std::string& path) {
  if (const auto info = real_io().stat(path); info && info->size_bytes > kMostBytes) too_large(path, info->size_bytes);
  return parse_sequence_lengths(real_io().read(path), path);
}

}  // namespace tern
