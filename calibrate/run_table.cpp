#include "calibrate/run_table.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>

#include "base/error.h"
#include "base/io.h"
#include "base/text.h"
#include "plan/plan_axes.h"

namespace tern {
namespace {

constexpr size_t kMostBytes = size_t{64} << 20;
constexpr size_t kMostColumns = 64, kMostRows = 16384;

// Names of columns, and what published tables call them.
struct Column {
  std::string_view name;
  std::array<std::string_view, 2> others{};
};
constexpr std::array kJobColumns{
    Column{"gpus", {"# gpus", "devices"}},
    Column{"global batch"},
    Column{"hidden size"},
    Column{"attention heads"},
    Column{"key/value heads"},
    Column{"layers", {"# layers"}},
    Column{"sequence length"},
    Column{"model"},
    Column{"dtype"},
    Column{"gradient dtype"},
    Column{"vocabulary"},
    Column{"products"},
    Column{"sequence parallelism"},
    Column{"tensor overlap"},
    Column{"gradient sums"},
    Column{"weight gathers"},
    Column{"context exchange"},
    Column{"iteration time (ms)"},
    Column{"tokens/s/gpu"},
    Column{"parameters (billion)"},
    Column{"source"},
    Column{"use"},
};

// Those of the job, and a column for each axis of a plan that tables have.
const std::vector<Column>& columns() {
  static const std::vector<Column> all = [] {
    std::vector<Column> list(kJobColumns.begin(), kJobColumns.end());
    for (const PlanAxis& a : plan_axes())
      if (!a.column.empty()) list.push_back({a.column});
    return list;
  }();
  return all;
}

// The cells of one line; a cell may stand in double quotes, with "" for a quote.
std::vector<std::string> cells_of(std::string_view line, const std::string& path, int number) {
  std::vector<std::string> cells(1);
  bool quoted = false, closed = false;
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quoted && c == '"' && i + 1 < line.size() && line[i + 1] == '"') {
      cells.back() += '"', ++i;
    } else if (c == '"' && (quoted || (trim(cells.back()).empty() && !closed))) {
      if (!quoted) cells.back().clear();
      closed = quoted, quoted = !quoted;
    } else if (c == ',' && !quoted) {
      if (cells.size() == kMostColumns)
        throw Error(ErrorKind::bad_file, "{}:{}: more than {} cells", path, number, kMostColumns);
      cells.emplace_back(), closed = false;
    } else {
      cells.back() += c;
    }
  }
  if (quoted) throw Error(ErrorKind::bad_file, "{}:{}: a quote that does not end on its line", path, number);
  for (std::string& cell : cells) cell = std::string(trim(cell));
  return cells;
}

// Which column stands where.
std::vector<size_t> header_of(const std::vector<std::string>& names, const std::string& path, int line) {
  std::vector<std::string_view> known;
  for (const Column& c : columns()) known.push_back(c.name);
  std::vector<size_t> out;
  for (const std::string& name : names) {
    const std::string lower = lowercase(name);
    const auto at = std::find_if(columns().begin(), columns().end(), [&](const Column& c) {
      return c.name == lower || (!lower.empty() && (c.others[0] == lower || c.others[1] == lower));
    });
    if (at == columns().end())
      throw Error(ErrorKind::bad_file, "{}:{}: no column is called '{}'{}; columns are {}", path, line,
                  make_printable(name), did_you_mean(lower, known), join({known.begin(), known.end()}, ", "));
    const auto index = static_cast<size_t>(at - columns().begin());
    if (std::find(out.begin(), out.end(), index) != out.end())
      throw Error(ErrorKind::bad_file, "{}:{}: two columns '{}'", path, line, at->name);
    out.push_back(index);
  }
  return out;
}

// One row, read by the names of its columns.
class Row {
 public:
  Row(const std::vector<size_t>& header, const std::vector<std::string>& cells, const std::string& path, int line)
      : header_(header), cells_(cells), path_(path), line_(line) {}

  template <class... Args>
  [[noreturn]] void fail(std::string_view column, fmt::format_string<Args...> format, Args&&... args) const {
    throw Error(ErrorKind::bad_file, "{}:{}: {}: {}", path_, line_, column,
                fmt::format(format, std::forward<Args>(args)...));
  }
  /// "" if the table has no such column or the cell is empty.
  const std::string& text(std::string_view column) const {
    static const std::string none;
    for (size_t i = 0; i < header_.size(); ++i)
      if (columns()[header_[i]].name == column) return cells_[i];
    return none;
  }
  double real(std::string_view column, double least, double most) const {
    const std::string& cell = text(column);
    if (cell.empty()) fail(column, "missing");
    double x = 0;
    const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), x);
    if (error != std::errc() || end != cell.data() + cell.size() || !std::isfinite(x))
      fail(column, "'{}' is no number", make_printable(cell));
    if (x < least || x > most) fail(column, "{}, expected {} to {}", x, least, most);
    return x;
  }
  int64_t integer(std::string_view column, int64_t most, std::optional<int64_t> fallback = {},
                  int64_t least = 1) const {
    if (fallback && text(column).empty()) return *fallback;
    const double x = real(column, static_cast<double>(least), static_cast<double>(most));
    if (x != std::floor(x)) fail(column, "{} is not whole", x);
    return static_cast<int64_t>(x);
  }
  /// The index of the cell among `names`.
  size_t choice(std::string_view column, const std::vector<std::string_view>& names, size_t fallback) const {
    const std::string cell = lowercase(text(column));
    if (cell.empty()) return fallback;
    const auto at = std::find(names.begin(), names.end(), cell);
    if (at == names.end())
      fail(column, "'{}' is none of {}{}", make_printable(cell), join({names.begin(), names.end()}, ", "),
           did_you_mean(cell, names));
    return static_cast<size_t>(at - names.begin());
  }

 private:
  const std::vector<size_t>& header_;
  const std::vector<std::string>& cells_;
  const std::string& path_;
  int line_;
};

// One axis of the row; `fallback`: where the cell is empty.
void read_axis(const Row& row, const PlanAxis& a, PlanPoint& point, int64_t fallback) {
  if (!a.values.empty())
    return a.set(point, static_cast<int64_t>(row.choice(a.column, a.values, static_cast<size_t>(fallback))));
  a.set(point, row.integer(a.column, a.most_in_table, fallback, a.least));
}

// Whether the axis `recompute` of the row says that a part of a block is made again, and which.
bool read_part(const Row& row, const PlanAxis& recompute, PartRecompute& part) {
  const std::string word = lowercase(row.text(recompute.column));
  if (word.empty() || std::find(recompute.values.begin(), recompute.values.end(), word) != recompute.values.end())
    return false;
  std::vector<std::string_view> words = recompute.values;
  for (const PartRecompute p : kPartRecomputes)
    if (p != PartRecompute::none) words.push_back(name_of(p));
  const std::string_view chosen = words[row.choice(recompute.column, words, 0)];
  for (const PartRecompute p : kPartRecomputes)
    if (name_of(p) == chosen) part = p;
  return true;
}

// The axes of the row, of which data ranks are what is left of the devices.
void read_axes(const Row& row, PublishedRun& run, const RunDefaults& defaults) {
  PlanPoint point{.choice = {.schedule = defaults.schedule},
                  .strategy = {.zero = defaults.zero, .recompute = defaults.recompute}};
  const OuterChoice& c = point.choice;
  const int64_t gpus = row.integer("gpus", 1 << 22);
  const PlanAxis* data = nullptr;
  for (const PlanAxis& a : plan_axes()) {
    if (a.column.empty()) continue;
    if (a.key == "data") {
      data = &a;
      continue;
    }
    if (a.key == "schedule" && c.chunks_per_stage > 1) point.choice.schedule = PipelineSchedule::interleaved;
    if (a.key == "recompute" && read_part(row, a, run.part)) {
      a.set(point, static_cast<int64_t>(Recompute::none));
      continue;
    }
    read_axis(row, a, point, a.get(point));
  }
  const int64_t rest = c.mesh.tensor * c.mesh.context * c.num_stages;
  if (rest > gpus)
    row.fail("gpus", "{}, but tensor {} × context {} × pipeline {} are {}", gpus, c.mesh.tensor, c.mesh.context,
             c.num_stages, rest);
  read_axis(row, *data, point, gpus / rest);
  if (c.devices() != gpus)
    row.fail("gpus", "{}, but tensor {} × context {} × data {} × pipeline {} are {}", gpus, c.mesh.tensor,
             c.mesh.context, c.mesh.data, c.num_stages, c.devices());
  if (run.job.batch % (c.micro_batch * c.mesh.data))
    row.fail("global batch", "{} is no multiple of {} data ranks × a micro-batch of {}", run.job.batch, c.mesh.data,
             c.micro_batch);
  if (c.num_stages == 1 && c.chunks_per_stage > 1)
    row.fail("virtual stages", "{} chunks on each stage of a pipeline of one; expected 1", c.chunks_per_stage);
  if (c.num_stages == 1) point.choice.schedule = kOneStageSchedule;
  point.choice.num_micro = run.job.batch / (c.micro_batch * c.mesh.data);
  run.choice = point.choice, run.strategy = point.strategy;
  run.experts_stated = !row.text("expert parallelism").empty();
}

// Limits keep a mistyped table from asking for more memory than there is; no published run is near them.
PublishedRun run_of(const Row& row, int line, const RunDefaults& defaults) {
  PublishedRun run{.line = line, .model = row.text("model"), .source = row.text("source")};
  if (run.model.empty()) {
    run.width = row.integer("hidden size", 1 << 20);
    run.heads = row.integer("attention heads", 1 << 16);
    run.layers = row.integer("layers", 4096);
    run.vocabulary = row.integer("vocabulary", 1 << 26, defaults.vocabulary);
    if (run.width % run.heads) row.fail("attention heads", "{} do not divide a width of {}", run.heads, run.width);
    run.kv_heads = row.integer("key/value heads", 1 << 16, run.heads);
    if (run.heads % run.kv_heads) row.fail("key/value heads", "{} do not divide {} heads", run.kv_heads, run.heads);
  } else {
    for (const char* size : {"hidden size", "attention heads", "key/value heads", "layers", "vocabulary"})
      if (!row.text(size).empty())
        row.fail(size, "given beside model '{}', which says it; give one of the two", make_printable(run.model));
  }
  run.job.seq = row.integer("sequence length", 1 << 24);
  run.job.batch = row.integer("global batch", 1 << 26);
  const std::vector<std::string_view> dtypes{"f16", "bf16", "f32"};
  const std::array types{DType::f16, DType::bf16, DType::f32};
  const auto usual = static_cast<size_t>(std::find(types.begin(), types.end(), defaults.dtype) - types.begin());
  TERN_CHECK(usual < types.size(), "parse_runs: dtype {}", name_of(defaults.dtype));
  run.job.dtype = types[row.choice("dtype", dtypes, usual)];
  run.job.gradients = run.job.dtype == DType::f16 ? DType::f16 : DType::f32;
  if (!row.text("gradient dtype").empty()) run.job.gradients = types[row.choice("gradient dtype", dtypes, 0)];
  const size_t overlap = row.choice("tensor overlap", {"off", "gradients", "on"}, 0);
  run.job.tensor_overlap = overlap == 2, run.traits.hides_input_gradient_sums = overlap == 1;
  run.traits.sequence_parallel = row.choice("sequence parallelism", {"on", "off"}, 0) == 0;
  if (!row.text("gradient sums").empty())
    run.traits.sums =
        row.choice("gradient sums", {"apart", "in products"}, 0) == 1 ? GradientSums::in_products : GradientSums::apart;
  run.traits.gathers_weights_beside = row.choice("weight gathers", {"before", "beside"}, 0) == 1;
  run.traits.gathers_context = row.choice("context exchange", {"ring", "gather"}, 0) == 1;
  run.traits.product_rate = row.choice("products", {"16-bit", "8-bit"}, 0) == 1 ? 2 : 1;

  read_axes(row, run, defaults);
  const OuterChoice& c = run.choice;
  const std::string &ms = row.text("iteration time (ms)"), &rate = row.text("tokens/s/gpu");
  if (!ms.empty() && !rate.empty()) row.fail("tokens/s/gpu", "given beside the iteration time; give one of the two");
  if (!ms.empty()) run.seconds = row.real("iteration time (ms)", 1e-3, 1e9) / 1e3;
  if (!rate.empty())
    run.seconds = static_cast<double>(run.job.batch) * static_cast<double>(run.job.seq) /
                  (row.real("tokens/s/gpu", 1e-3, 1e9) * static_cast<double>(c.devices()));
  run.use = static_cast<RunUse>(row.choice("use", {"fit", "score", "pair"}, 0));
  return run;
}

}  // namespace

std::string_view name_of(RunUse use) { return use == RunUse::fit ? "fit" : use == RunUse::score ? "score" : "pair"; }

std::vector<PublishedRun> parse_runs(std::string_view csv, const std::string& path, const RunDefaults& defaults) {
  if (csv.size() > kMostBytes)
    throw Error(ErrorKind::bad_file, "{}: {} bytes, a table has {} at most", path, csv.size(), kMostBytes);
  constexpr std::string_view kMark = "\xEF\xBB\xBF";  // of UTF-8, as spreadsheets write it
  if (csv.starts_with(kMark)) csv.remove_prefix(kMark.size());
  std::vector<PublishedRun> runs;
  std::vector<size_t> header;
  int number = 0;
  while (!csv.empty()) {
    const size_t end = std::min(csv.find('\n'), csv.size());
    const std::string_view line = trim(csv.substr(0, end));
    csv.remove_prefix(std::min(end + 1, csv.size()));
    ++number;
    if (line.empty()) continue;
    const std::vector<std::string> cells = cells_of(line, path, number);
    if (header.empty()) {
      header = header_of(cells, path, number);
      continue;
    }
    if (cells.size() != header.size())
      throw Error(ErrorKind::bad_file, "{}:{}: {} cells, the header names {}", path, number, cells.size(),
                  header.size());
    if (runs.size() == kMostRows)
      throw Error(ErrorKind::bad_file, "{}:{}: more than {} rows; split the table", path, number, kMostRows);
    runs.push_back(run_of(Row(header, cells, path, number), number, defaults));
  }
  if (runs.empty())
    throw Error(ErrorKind::bad_file, "{}: no rows; expected a line of column names and a row for each run", path);
  return runs;
}

std::vector<PublishedRun> read_runs(const std::string& path, const RunDefaults& defaults) {
  return parse_runs(real_io().read(path), path, defaults);
}

}  // namespace tern
