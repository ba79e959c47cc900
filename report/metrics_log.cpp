#include "report/metrics_log.h"

#include <fmt/core.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "report/tensorboard.h"

namespace tern {
namespace {

constexpr const char* kJsonlName = "metrics.jsonl";
constexpr const char* kEventsName = "events.out.tfevents.tern";  // TensorBoard looks for "tfevents" in the name

std::string number_text(double value) {
  if (std::isnan(value)) return "\"NaN\"";
  if (std::isinf(value)) return value > 0 ? "\"Infinity\"" : "\"-Infinity\"";
  return fmt::format("{}", value);  // the shortest text that reads back to the same bits
}

double parse_number(const Json& value, const std::string& place, const std::string& tag) {
  if (value.is_number()) return value.get<double>();
  if (value.is_string()) {
    const std::string text = value.get<std::string>();
    if (text == "NaN") return std::numeric_limits<double>::quiet_NaN();
    if (text == "Infinity") return std::numeric_limits<double>::infinity();
    if (text == "-Infinity") return -std::numeric_limits<double>::infinity();
  }
  throw Error(ErrorKind::bad_file, "{}: '{}' is {}, expected a number; was the log edited?", place, tag,
              dump_json(value));
}

// To the millisecond.
double present_s(const Clock& clock) { return static_cast<double>(clock.wall_ns() / 1'000'000) / 1000; }

// What `parse` makes of the file. One that it cannot read is not written over: it may be a stranger's.
template <class Parse>
auto read_log(Io& io, const std::string& path, Parse parse) {
  const std::string bytes = io.read(path);
  try {
    return parse(bytes, path);
  } catch (const Error& e) {
    throw Error(e.kind(), "{}; checkpoints do not need it: move it away and the same command goes on with a new log",
                e.what());
  }
}

// Each file is replaced as a whole: a crash between the two leaves one of them longer, and the next start mends it.
void keep_rows_until(Io& io, const std::string& jsonl, const std::string& events, int64_t last_step, double now_s) {
  std::optional<int64_t> num_rows;  // that a checkpoint of last_step had synced in both files
  if (last_step >= 0 && io.stat(jsonl)) {
    std::string kept;
    num_rows = 0;
    for (const MetricRow& row : read_log(io, jsonl, parse_metrics).rows)
      if (row.step <= last_step) kept += metric_line(row) + "\n", *num_rows += !row.values.empty();
    write_file_atomically(io, jsonl, kept);
  } else {
    write_file_atomically(io, jsonl, std::string_view());
  }
  std::string kept = event_file_header(now_s);
  if (last_step >= 0 && io.stat(events)) {
    const EventFile old = read_log(io, events, parse_sound_events);
    if (old.start_time_s > 0) kept = event_file_header(old.start_time_s);
    int64_t num_events = 0;
    for (const ScalarEvent& event : old.events)
      if (event.step <= last_step) kept += event_scalars(event), ++num_events;
    // Damage behind what was synced is a power loss; before it, the file is not what it was.
    if (old.torn && num_rows.value_or(0) > num_events) read_log(io, events, parse_events);
  }
  write_file_atomically(io, events, kept);
}

}  // namespace

std::string metric_line(const MetricRow& row) {
  std::set<std::string_view> seen = {"step", "time"};
  std::string line = fmt::format("{{\"step\":{},\"time\":{}", row.step, number_text(row.time_s));
  for (const auto& [tag, value] : row.values) {
    TERN_CHECK(!tag.empty() && seen.insert(tag).second, "metric_line: the tag '{}' is empty, reserved or given twice",
               tag);
    line += fmt::format(",{}:{}", quote_json(tag), number_text(value));
  }
  return line + "}";
}

MetricRow parse_metric_line(std::string_view line, const std::string& place) {
  const Json json = parse_json(line, place, {.max_bytes = 1 << 20, .max_depth = 2});
  if (!json.is_object() || !json.contains("step") || !json["step"].is_number_integer())
    throw Error(ErrorKind::bad_file,
                "{}: no whole number 'step', expected a row such as {{\"step\":1,\"train/loss\":2.5}}", place);
  MetricRow row;
  for (const auto& [tag, value] : json.items()) {
    if (tag == "step")
      row.step = value.get<int64_t>();
    else if (tag == "time")
      row.time_s = parse_number(value, place, tag);
    else
      row.values.emplace_back(tag, parse_number(value, place, tag));
  }
  return row;
}

MetricsFile parse_metrics(std::string_view text, const std::string& path) {
  MetricsFile file;
  for (size_t line_number = 1; !text.empty(); ++line_number) {
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    file.torn = end == std::string_view::npos || line.find('\0') != std::string_view::npos;
    if (file.torn) break;
    file.rows.push_back(parse_metric_line(line, fmt::format("{}:{}", path, line_number)));
    text.remove_prefix(end + 1);
  }
  return file;
}

MetricsFile read_metrics(const std::string& path) { return parse_metrics(real_io().read(path), path); }

MetricsLog::MetricsLog(Io& io, const std::string& directory, int64_t last_step, Clock& clock) : clock_(clock) {
  const std::string jsonl = join_path(directory, kJsonlName), events = join_path(directory, kEventsName);
  make_dirs(io, directory);
  keep_rows_until(io, jsonl, events, last_step, present_s(clock_));
  jsonl_ = io.open_append(jsonl);
  events_ = io.open_append(events);
}

void MetricsLog::append(MetricRow row) {
  if (row.time_s == 0) row.time_s = present_s(clock_);
  jsonl_->append(metric_line(row) + "\n");
  ScalarEvent event{row.step, row.time_s, {}};
  for (const auto& [tag, value] : row.values) event.values.emplace_back(tag, static_cast<float>(value));
  events_->append(event_scalars(event));
}

void MetricsLog::sync() {
  jsonl_->sync();
  events_->sync();
}

}  // namespace tern
