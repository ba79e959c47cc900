#include "adapt/stream_scores.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace tern {
namespace {

template <class Term>
std::optional<double> mean(size_t begin, size_t end, Term&& term) {
  if (begin >= end) return {};
  double sum = 0;
  for (size_t j = begin; j < end; ++j) sum += term(j);
  return sum / static_cast<double>(end - begin);
}

std::string line(const std::string& name, const std::vector<double>& scores, size_t width) {
  std::string text = fmt::format("{:<{}}", name, width);
  for (const double s : scores) text += fmt::format("  {:>9.4f}", s);
  return text + "\n";
}

}  // namespace

StreamSummary summary_of(const StreamScores& s) {
  const size_t tasks = s.tasks.size();
  TERN_CHECK(tasks > 0 && s.rows.size() == tasks, "summary: {} rows of {} tasks", s.rows.size(), tasks);
  const std::vector<double>& last = s.rows.back();
  const double sign = s.accuracy ? -1 : 1;
  StreamSummary summary;
  summary.average = *mean(0, tasks, [&](size_t j) { return last[j]; });
  summary.forgot = mean(0, tasks - 1, [&](size_t j) {
    double least = sign * s.rows[0][j];
    for (size_t l = 1; l + 1 < tasks; ++l) least = std::min(least, sign * s.rows[l][j]);
    return sign * last[j] - least;
  });
  summary.backward = mean(0, tasks - 1, [&](size_t j) { return sign * (s.rows[j][j] - last[j]); });
  summary.forward = mean(1, tasks, [&](size_t j) { return sign * (s.before[j] - s.rows[j - 1][j]); });
  return summary;
}

std::string table_of(const StreamScores& s) {
  size_t width = 13;
  for (const std::string& t : s.tasks) width = std::max(width, t.size() + 6);
  std::string text = fmt::format("{:<{}}", s.accuracy ? "share right" : "bits per byte", width);
  for (const std::string& t : s.tasks) text += fmt::format("  {:>9}", t.size() > 9 ? t.substr(0, 9) : t);
  text += "\n" + line("before", s.before, width);
  for (size_t i = 0; i < s.rows.size(); ++i) text += line("after " + s.tasks[i], s.rows[i], width);
  if (!s.alone.empty()) text += line("each alone", s.alone, width);
  if (!s.together.empty()) text += line("all together", s.together, width);
  if (s.rows.size() < s.tasks.size()) return text;
  const StreamSummary summary = summary_of(s);
  text += fmt::format("AP {:.4f}", summary.average);
  if (summary.forgot)
    text += fmt::format("  FT {:+.4f}  BWT {:+.4f}  FWT {:+.4f}", *summary.forgot, *summary.backward, *summary.forward);
  return text + "\n";
}

}  // namespace tern
