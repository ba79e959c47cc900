#include "apps/nccl_tests.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "base/error.h"
#include "base/text.h"
#include "base/units.h"

namespace tern {
namespace {

constexpr size_t kMostBytes = size_t{16} << 20, kMostRows = 65536, kMostTokens = 32;
constexpr std::string_view kCollectives[]{"all_reduce", "all_gather", "reduce_scatter", "alltoall",
                                          "sendrecv",   "broadcast",  "reduce"};

// Parted by blanks; empty if there are more words than a table has columns.
std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> out;
  for (size_t at = 0; at < line.size();) {
    const size_t begin = line.find_first_not_of(" \t\r", at);
    if (begin == std::string_view::npos) break;
    const size_t end = std::min(line.find_first_of(" \t\r", begin), line.size());
    if (out.size() == kMostTokens) return {};
    out.push_back(line.substr(begin, end - begin));
    at = end;
  }
  return out;
}

// A finite number from 0 on.
std::optional<double> number(std::string_view word) {
  if (word.empty() || word.find_first_not_of("0123456789.eE+-") != std::string_view::npos) return std::nullopt;
  try {
    const double x = parse_real(word, "");
    if (std::isfinite(x) && x >= 0 && x <= 1e18) return x;
  } catch (const Error&) {}  // not a number
  return std::nullopt;
}

struct Columns {
  size_t size = 0, time = 0, redop = 0;  // redop 0: there is none
  size_t words = 0;                      // of a row
};
std::optional<Columns> columns_of(const std::vector<std::string_view>& header) {
  const auto at = [&](std::string_view name) {
    return static_cast<size_t>(std::find(header.begin(), header.end(), name) - header.begin());
  };
  const size_t size = at("size"), time = at("time"), redop = at("redop");
  if (size != 0 || time == header.size() || at("algbw") != time + 1 || at("busbw") != time + 2) return std::nullopt;
  return Columns{size, time, redop < time ? redop : 0, header.size()};
}

// "all_reduce_perf" → "all_reduce"
std::string collective_in(std::string_view line) {
  const size_t end = line.find("_perf");
  if (end == std::string_view::npos) return "";
  const size_t begin = line.find_last_not_of("abcdefghijklmnopqrstuvwxyz_", end - (end > 0));
  const std::string_view name = line.substr(begin == std::string_view::npos ? 0 : begin + 1,
                                            end - (begin == std::string_view::npos ? 0 : begin + 1));
  const auto known = std::find(std::begin(kCollectives), std::end(kCollectives), name);
  return known == std::end(kCollectives) ? "" : std::string(name);
}

// busbw / algbw, of the rows where rounding matters least.
double bus_factor(const NcclTest& t) {
  const auto best = std::max_element(t.rows.begin(), t.rows.end(),
                                     [](const NcclRow& a, const NcclRow& b) { return a.algbw < b.algbw; });
  return best->algbw > 0 ? best->busbw / best->algbw : 0;
}

void work_out(NcclTest& t, bool reduces, const std::string& path) {
  const double factor = bus_factor(t);
  if (t.collective.empty()) {
    if (factor > 1.01 || (reduces && t.ranks == 2 && factor > 0.99))
      t.collective = "all_reduce";
    else if (factor < 0.99)
      t.collective = reduces ? "reduce_scatter" : "all_gather";
    else
      t.collective = reduces ? "reduce" : "sendrecv";
  }
  if (t.ranks > 0) return;
  // 2(n − 1)/n of an all_reduce, (n − 1)/n of the others
  const double share = t.collective == "all_reduce" ? factor / 2 : factor;
  const double ranks = share < 1 ? std::round(1 / (1 - share)) : 0;
  if (!(ranks >= 2 && ranks <= 1 << 20))
    throw Error(ErrorKind::bad_file,
                "{}: tells neither its ranks nor bandwidths that give them away; keep its lines "
                "'# Rank …' when copying",
                path);
  t.ranks = static_cast<int64_t>(ranks);
}

struct Sent {
  double steps, bytes;
};
Sent sent(const NcclTest& t, int64_t bytes) {
  const double n = static_cast<double>(t.ranks), b = static_cast<double>(bytes);
  if (t.collective == "sendrecv" || t.collective == "broadcast" || t.collective == "reduce") return {1, b};
  if (t.collective == "alltoall") return {1, b * (1 - 1 / n)};
  const double times = t.collective == "all_reduce" ? 2 : 1;
  return {times * (n - 1), times * b * (1 - 1 / n)};
}

// The lines of an output, one after the other.
struct NcclReader {
  const std::string& path;
  NcclTest test = {};
  std::optional<Columns> columns = {};
  std::map<std::string, int64_t, std::less<>> hosts = {};  // and their ranks
  bool reduces = false;
  int line_number = 0;

  void take(std::string_view line);
  void take_name(std::string_view line);
  void take_comment(std::string_view line);
  void take_row(std::string_view line);
};

void NcclReader::take(std::string_view line) {
  ++line_number;
  if (line.empty()) return;
  take_name(line);
  if (line.front() == '#') return take_comment(line.substr(1));
  if (columns) take_row(line);  // else it is what a launcher printed before the table
}

void NcclReader::take_name(std::string_view line) {
  std::string name = collective_in(line);
  if (name.empty()) return;
  if (test.named && name != test.collective)
    throw Error(ErrorKind::bad_file, "{}:{}: {} after {}; give each collective's output as a file of its own", path,
                line_number, name, test.collective);
  test.collective = std::move(name), test.named = true;
}

void NcclReader::take_comment(std::string_view line) {
  const std::vector<std::string_view> words = words_of(line);
  if (const auto header = columns_of(words)) columns = header;
  if (words.size() > 2 && words[0] == "Rank" && number(words[1])) {
    if (++test.ranks > 1 << 20) throw Error(ErrorKind::bad_file, "{}: more than a million ranks", path);
    const auto on = std::find(words.begin(), words.end(), "on");
    if (on != words.end() && on + 1 != words.end()) ++hosts[std::string(on[1])];
  }
  if (line.find("Out of bounds values") != std::string_view::npos && line.find("FAILED") != std::string_view::npos)
    throw Error(ErrorKind::bad_file, "{}:{}: the test says that values were wrong: {}; mend the machine first", path,
                line_number, make_printable(trim(line)));
}

void NcclReader::take_row(std::string_view line) {
  const std::vector<std::string_view> words = words_of(line);
  const std::optional<double> bytes = words.empty() ? std::nullopt : number(words[0]);
  if (!bytes) return;  // a line between
  const auto field = [&](size_t i) { return i < words.size() ? number(words[i]) : std::nullopt; };
  const auto us = field(columns->time), algbw = field(columns->time + 1), busbw = field(columns->time + 2);
  if (words.size() != columns->words || !us || !algbw || !busbw || *bytes > 1e15 || *bytes != std::floor(*bytes) ||
      *us > 1e12 || (*us != 0 && *us < 1e-3))
    throw Error(ErrorKind::bad_file, "{}:{}: '{}' is no row of size, time and bandwidths", path, line_number,
                make_printable(line.substr(0, 80)));
  if (columns->redop > 0 && words[columns->redop] != "none") reduces = true;
  if (*bytes == 0 || *us == 0) return;
  if (test.rows.size() == kMostRows) throw Error(ErrorKind::bad_file, "{}: more than {} rows", path, kMostRows);
  test.rows.push_back({static_cast<int64_t>(*bytes), *us, *algbw, *busbw});
}

}  // namespace

NcclTest parse_nccl_tests(std::string_view text, const std::string& path) {
  if (text.size() > kMostBytes)
    throw Error(ErrorKind::bad_file, "{}: {} bytes are no output of nccl-tests; at most 16 MiB", path, text.size());
  NcclReader reader{path};
  for (std::string_view rest = text; !rest.empty();) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    reader.take(trim(rest.substr(0, end)));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  if (!reader.columns)
    throw Error(ErrorKind::bad_file,
                "{}: no table of nccl-tests ('# size count type … time algbw busbw'); give what "
                "all_reduce_perf, all_gather_perf and the like print",
                path);
  NcclTest& t = reader.test;
  std::stable_sort(t.rows.begin(), t.rows.end(), [](const NcclRow& a, const NcclRow& b) { return a.bytes < b.bytes; });
  if (t.rows.size() < 3 || t.rows.front().bytes == t.rows.back().bytes)
    throw Error(ErrorKind::bad_file,
                "{}: {} rows with a time; at least three, of several sizes, tell latency from "
                "bandwidth (such as -b 8 -e 1G -f 2)",
                path, t.rows.size());
  t.hosts = static_cast<int64_t>(reader.hosts.size());
  for (const auto& [host, ranks] : reader.hosts)
    if (ranks * t.hosts != t.ranks)
      throw Error(
          ErrorKind::bad_file,
          "{}: {} of {} ranks are on '{}', one of {} hosts; a cluster file has as many devices on each: run the "
          "test with equal nodes",
          path, ranks, t.ranks, make_printable(host), t.hosts);
  work_out(t, reader.reduces, path);
  if (t.ranks < 2) throw Error(ErrorKind::bad_file, "{}: {} rank sends nothing over a link", path, t.ranks);
  return std::move(t);
}

LinkFit fit_links(const NcclTest& t) { return fit_links(std::span(&t, 1)); }

LinkFit fit_links(std::span<const NcclTest> tests) {
  struct RowTime {
    const NcclTest& test;
    const NcclRow& row;
    double seconds() const { return row.us * 1e-6; }
    Sent sent_bytes() const { return sent(test, row.bytes); }
  };
  std::vector<RowTime> samples;
  for (const NcclTest& t : tests)
    for (const NcclRow& r : t.rows) samples.push_back({t, r});
  // Divided by the time: 1 = a·(steps/t) + b·(bytes/t), a and b from the normal equations.
  double ss = 0, sb = 0, bb = 0, s1 = 0, b1 = 0;
  for (const RowTime& r : samples) {
    const Sent x = r.sent_bytes();
    const double u = x.steps / r.seconds(), v = x.bytes / r.seconds();
    ss += u * u, sb += u * v, bb += v * v, s1 += u, b1 += v;
  }
  const double determinant = ss * bb - sb * sb;
  double latency = determinant > 0 ? (s1 * bb - b1 * sb) / determinant : 0;
  double inverse = determinant > 0 ? (b1 * ss - s1 * sb) / determinant : 0;
  if (!(latency >= 0)) latency = 0, inverse = b1 / bb;
  if (!(inverse > 0))  // all latency: what the largest size still shows
    inverse = samples.back().seconds() / samples.back().sent_bytes().bytes, latency = 0;
  LinkFit fit{.bandwidth = 1 / inverse, .latency_s = latency};
  std::vector<double> errors;
  for (const RowTime& r : samples) {
    const Sent x = r.sent_bytes();
    const double error = std::abs((latency * x.steps + inverse * x.bytes) / r.seconds() - 1);
    errors.push_back(error);
    if (error >= fit.worst_error) fit.worst_error = error, fit.worst_bytes = r.row.bytes;
    fit.best_busbw = std::max(fit.best_busbw, r.row.busbw * 1e9);
  }
  std::nth_element(errors.begin(), errors.begin() + static_cast<int64_t>(errors.size() / 2), errors.end());
  fit.median_error = errors[errors.size() / 2];
  return fit;
}

}  // namespace tern
