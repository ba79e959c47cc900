#include "model/whole_modules.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/wide_type.h"
#include "formats/safetensors/safetensors.h"
#include "model/adapter_files.h"
#include "model/allocate_weights.h"
#include "model/fragment.h"
#include "model/names.h"
#include "model/number.h"
#include "model/ops.h"
#include "model/parameter_reader.h"
#include "model/visit_weights.h"
#include "model/weights_file.h"

namespace tern {
namespace {

constexpr std::string_view kBeforeNames = "base_model.model.";

// "model.norm" of "model.norm.weight", "model" of that, "" in the end.
std::string_view parent_of(std::string_view path) {
  const size_t dot = path.rfind('.');
  return dot == path.npos ? std::string_view{} : path.substr(0, dot);
}

// Whether a module that the name ends has this tensor in it.
bool saves(std::string_view name, std::string_view tensor) {
  for (std::string_view module = parent_of(tensor); !module.empty(); module = parent_of(module))
    if (module.ends_with(name)) return true;
  return false;
}

bool is_table(const ParameterInfo& info) { return info.shape.rank == 2 && info.name.starts_with("embed."); }
bool is_head(const ParameterInfo& info) { return info.name == "head.projection.weight"; }

// All parameters, and the head that a tied model has not.
std::vector<WholeModule> candidates(const ModelSpec& spec) {
  std::vector<WholeModule> all;
  for (ParameterInfo& info : parameters(spec)) all.push_back({.info = std::move(info)});
  const HeadSpec& head = spec.head();
  if (!head.tied) return all;
  std::vector<Fragment> names;
  if (!spec.names.projection.empty()) names = file_names(spec, -1, &HfNames::projection, "weight", head.vocab);
  if (names.empty()) names.push_back({std::string(kTiedHead), 0, head.vocab, false, 0, head.vocab});
  all.push_back({.info = {"head.projection.weight",
                          {head.vocab, head.width},
                          static_cast<int>(spec.units.size()) - 1,
                          true,
                          false,
                          0,
                          std::move(names)},
                 .is_tied_head = true});
  return all;
}

std::string adapter_name_of(std::string_view name) { return std::string(kBeforeNames) + std::string(name); }
// What PEFT calls the weight beside a low rank, where it saves that too.
std::string base_layer_name(const WholeModule& m) { return adapter_name_of(m.path) + ".base_layer.weight"; }

std::vector<std::string> low_rank_names(const WholeModule& m, bool magnitude) {
  const std::string path = adapter_name_of(m.path);
  std::vector<std::string> names = is_table(m.info)
                                       ? std::vector{path + ".lora_embedding_A", path + ".lora_embedding_B"}
                                       : std::vector{path + ".lora_A.weight", path + ".lora_B.weight"};
  if (magnitude) names.push_back(path + ".lora_magnitude_vector");
  return names;
}

// The files that an adapter's modules are read from.
struct WholeFiles {
  const ModelSpec& spec;
  const PeftConfig& config;
  Safetensors adapter;
  ParameterReader model;
  DType sums;  // f32 or f64
  Arena beside;
};

TensorView adapter_tensor(const WholeFiles& files, const std::string& name, const std::vector<int64_t>& shape) {
  const auto view = files.adapter.find(name);
  if (!view)
    throw Error(ErrorKind::bad_file, "{}: tensor '{}' is missing; adapter_config.json implies it for this model",
                files.adapter.path(), name);
  if (!std::ranges::equal(view->shape, shape))
    throw Error(
        ErrorKind::bad_file,
        "{}: tensor '{}' has shape {}, the model and adapter_config.json imply {}; was it made for another model?",
        files.adapter.path(), name, shape_text(view->shape), shape_text(shape));
  return *view;
}

void refuse_not_finite(const WholeFiles& files, const std::string& name, double x) {
  if (!std::isfinite(x))
    throw Error(ErrorKind::bad_file, "{}: tensor '{}' holds {}, expected finite numbers", files.adapter.path(), name,
                x);
}

// A tensor of the adapter, (rows, columns) or (rows), in f64.
std::vector<double> adapter_numbers(const WholeFiles& files, const std::string& name,
                                    const std::vector<int64_t>& shape) {
  const TensorView view = adapter_tensor(files, name, shape);
  std::vector<double> numbers(static_cast<size_t>(view.num_elements()));
  const int64_t width = shape.size() == 2 ? shape[1] : 1;
  copy_fragment(view, files.adapter.path(), Fragment{name, 0, shape[0], false, 0, shape[0]}, width, numbers.data());
  for (const double x : numbers) refuse_not_finite(files, name, x);
  return numbers;
}

// Rows of the parameter from a tensor of the adapter that stands for the fragment's.
void read_saved(const WholeFiles& files, const ParameterInfo& info, Fragment f, const std::string& name,
                const Tensor& to) {
  const TensorView view = adapter_tensor(files, name, fragment_shape(info, f));
  const int64_t width = info.shape.rank == 2 ? info.shape[1] : 1;
  f.name = name;
  ops::by_dtype(to.dtype(), [&]<class T>() {
    T* numbers = to.span<T>().data() + f.row_begin * width;
    copy_fragment(view, files.adapter.path(), f, width, numbers);
    for (int64_t i = 0; i < (f.row_end - f.row_begin) * width; ++i)
      refuse_not_finite(files, name, number_as<double>(numbers[i]));
  });
}

// A change of a (rows, width) matrix: row n gains left[n]·right. Either each row or each column may have a length of its own.
struct LowRank {
  int64_t rank = 0;
  std::vector<double> left = {}, right = {};  // (rows, rank), times the scale; (rank, width)
  std::vector<double> row_lengths = {}, column_lengths = {};
};

LowRank low_rank_of(const WholeFiles& files, const WholeModule& m) {
  const Fragment& f = m.info.fragments.front();
  const int64_t rows = m.info.shape[0], width = m.info.shape[1], rank = m.low_rank->rank;
  const std::vector<std::string> names = low_rank_names(m, files.config.magnitude);
  TERN_CHECK(!f.transposed, "whole modules: '{}' is transposed", m.info.name);
  LowRank change{.rank = rank};
  change.left.resize(static_cast<size_t>(rows * rank));
  const auto file_row = [&](int64_t n) { return f.file_row + f.file_step * (n - f.row_begin); };
  const bool table = is_table(m.info);
  const std::vector<double> a = adapter_numbers(files, names[0], {rank, table ? f.file_rows : width}),
                            b = adapter_numbers(files, names[1], {table ? width : f.file_rows, rank});
  for (int64_t n = 0; n < rows; ++n)
    for (int64_t r = 0; r < rank; ++r) {
      const int64_t at = table ? r * f.file_rows + file_row(n) : file_row(n) * rank + r;
      change.left[static_cast<size_t>(n * rank + r)] = m.low_rank->scale * (table ? a : b)[static_cast<size_t>(at)];
    }
  if (table) {
    change.right.resize(static_cast<size_t>(rank * width));
    for (int64_t d = 0; d < width; ++d)
      for (int64_t r = 0; r < rank; ++r)
        change.right[static_cast<size_t>(r * width + d)] = b[static_cast<size_t>(d * rank + r)];
  } else {
    change.right = a;
  }
  if (!files.config.magnitude) return change;
  if (f.file_rows != rows || f.file_row != 0 || f.file_step != 1)
    throw Error(ErrorKind::bad_file, "{}: tensor '{}': lengths of a table of which this model uses {} rows of {}",
                files.adapter.path(), names[2], rows, f.file_rows);
  (table ? change.column_lengths : change.row_lengths) = adapter_numbers(files, names[2], {table ? width : rows});
  return change;
}

// Row n after the change.
template <class T>
void changed_row(const LowRank& change, std::span<const T> row, int64_t n, std::span<double> to) {
  for (size_t k = 0; k < row.size(); ++k) to[k] = static_cast<double>(row[k]);
  for (int64_t r = 0; r < change.rank; ++r) {
    const double factor = change.left[static_cast<size_t>(n * change.rank + r)];
    const double* right = change.right.data() + static_cast<size_t>(r) * row.size();
    for (size_t k = 0; k < row.size(); ++k) to[k] += factor * right[k];
  }
}

// What each column is multiplied by, so that it has its length; in order of the rows.
template <class T>
std::vector<double> column_factors(const LowRank& change, std::span<const T> w, int64_t rows, size_t width) {
  std::vector<double> squares(width), row(width), factors(width, 1);
  for (int64_t n = 0; n < rows; ++n) {
    changed_row<T>(change, w.subspan(static_cast<size_t>(n) * width, width), n, row);
    for (size_t k = 0; k < width; ++k) squares[k] += row[k] * row[k];
  }
  for (size_t k = 0; k < width; ++k)
    if (squares[k] > 0) factors[k] = change.column_lengths[k] / std::sqrt(squares[k]);
  return factors;
}

template <class T>
void add_low_rank(const LowRank& change, int64_t rows, size_t width, std::span<T> w) {
  std::vector<double> by_column;
  if (!change.column_lengths.empty()) by_column = column_factors<T>(change, w, rows, width);
#pragma omp parallel for
  for (int64_t n = 0; n < rows; ++n) {
    const std::span<T> row = w.subspan(static_cast<size_t>(n) * width, width);
    std::vector<double> sum(width);
    changed_row<T>(change, row, n, sum);
    double factor = 1;
    if (!change.row_lengths.empty()) {
      double squares = 0;
      for (const double x : sum) squares += x * x;
      if (squares > 0) factor = change.row_lengths[static_cast<size_t>(n)] / std::sqrt(squares);
    }
    for (size_t k = 0; k < width; ++k) row[k] = static_cast<T>(sum[k] * (by_column.empty() ? factor : by_column[k]));
  }
}

// The table that a tied model's head begins as: the model's, or what PEFT saved of it beside a low rank.
const WholeModule* table_of(const std::vector<WholeModule>& all) {
  for (const WholeModule& m : all)
    if (m.info.name == "embed.tokens") return &m;
  return nullptr;
}

void read_begin(WholeFiles& files, const std::vector<WholeModule>& all, const WholeModule& m, const Tensor& t) {
  const WholeModule* from = m.is_tied_head ? table_of(all) : &m;
  const ParameterInfo info = from ? from->info : parameters(files.spec).front();
  ops::copy(files.model.read(info, files.sums, files.beside), t);
  for (const WholeModule* one : {from, &m})
    if (one && one->low_rank)
      if (const std::string name = base_layer_name(*one); files.adapter.find(name))
        read_saved(files, one->info, one->info.fragments.front(), name, t);
}

// The parameter as the adapter has it, in files.sums.
Tensor value_with(WholeFiles& files, const std::vector<WholeModule>& all, const WholeModule& m) {
  Tensor t = files.beside.allocate(files.sums, m.info.shape, MemoryClass::weights);
  int64_t rows = 0;
  for (const Fragment& f : m.saved) rows += f.row_end - f.row_begin;
  if (rows < m.info.shape[0]) read_begin(files, all, m, t);
  for (const Fragment& f : m.saved) read_saved(files, m.info, f, adapter_name_of(f.name), t);
  if (!m.low_rank) return t;
  const LowRank change = low_rank_of(files, m);
  const auto width = static_cast<size_t>(m.info.shape[1]);
  if (t.dtype() == DType::f64)
    add_low_rank<double>(change, m.info.shape[0], width, t.span<double>());
  else
    add_low_rank<float>(change, m.info.shape[0], width, t.span<float>());
  return t;
}

// Linears in the visitor's order.
std::vector<Linear*> linears_of(const ModelSpec& spec, ModelWeights& weights) {
  std::vector<Linear*> all;
  for_each_linear(spec, weights, [&](const ParameterInfo&, Linear& linear) { all.push_back(&linear); });
  return all;
}

}  // namespace

std::vector<WholeModule> whole_modules(const ModelSpec& spec, const PeftConfig& config, std::string_view where) {
  std::vector<WholeModule> modules;
  if (config.saved.empty() && config.targets.all_linear) return modules;  // which leaves tables and the head out
  std::vector<bool> used(config.saved.size());
  for (WholeModule& m : candidates(spec)) {
    for (const Fragment& f : m.info.fragments) {
      bool is_saved = false;
      for (size_t i = 0; i < config.saved.size(); ++i)
        if (saves(config.saved[i], f.name)) used[i] = is_saved = true;
      if (is_saved) m.saved.push_back(f);
    }
    if ((is_table(m.info) || is_head(m.info)) && m.info.fragments.size() == 1 && !config.targets.all_linear) {
      m.path = parent_of(m.info.fragments.front().name);
      m.low_rank = peft_adapter_of(config, m.path);
    }
    if (!m.saved.empty() || m.low_rank) modules.push_back(std::move(m));
  }
  for (size_t i = 0; i < used.size(); ++i)
    if (!used[i])
      throw Error(ErrorKind::bad_file, "{}: modules_to_save: '{}' ends the name of no module of this {} model", where,
                  config.saved[i], spec.family);
  return modules;
}

std::vector<std::string> whole_module_tensors(const ModelSpec& spec, const PeftConfig& config, const std::string& dir) {
  const std::vector<WholeModule> modules = whole_modules(spec, config, dir);
  std::vector<std::string> names;
  if (modules.empty()) return names;
  const Safetensors file(peft_weights_file(dir));
  for (const WholeModule& m : modules) {
    for (const Fragment& f : m.saved) names.push_back(adapter_name_of(f.name));
    if (!m.low_rank) continue;
    for (std::string& name : low_rank_names(m, config.magnitude)) names.push_back(std::move(name));
    if (file.find(base_layer_name(m))) names.push_back(base_layer_name(m));
  }
  std::ranges::sort(names);
  names.erase(std::ranges::unique(names).begin(), names.end());  // several fragments may stand in one tensor
  return names;
}

void put_whole_modules(const ModelSpec& spec, const PeftConfig& config, const std::string& dir,
                       const std::string& model_dir, DType dtype, ModelWeights& weights, Arena& arena) {
  const std::vector<WholeModule> modules = whole_modules(spec, config, dir);
  if (modules.empty()) return;
  WholeFiles files{
      spec, config, Safetensors(peft_weights_file(dir)), ParameterReader(spec, model_dir), wide_type(dtype), {}};
  const auto value = [&](std::string_view name, Tensor& t) {
    const auto m = std::ranges::find_if(modules, [&](const WholeModule& one) { return one.info.name == name; });
    if (m == modules.end()) return false;
    const Tensor exact = value_with(files, modules, *m);
    t = arena.allocate(dtype, m->info.shape, MemoryClass::weights);
    exact.dtype() == dtype ? ops::copy(exact, t) : ops::round_to(exact, t);
    return true;
  };
  ModelWeights changed = weights;  // handles; linears are empty but for what the adapter has
  for (Linear* linear : linears_of(spec, changed)) linear->weight = DenseWeight{};
  for_each_parameter(spec, changed, [&](const ParameterInfo& info, Tensor& t) {
    if (value(info.name, t) && info.name == "embed.tokens")
      embed_of(changed).coded_tokens = {}, embed_of(changed).tokens_in_file = {};
  });
  if (spec.head().tied) value("head.projection.weight", dense_rows(head_of(changed).projection));
  share_norms(spec, changed);
  const std::vector<Linear*> from = linears_of(spec, weights), to = linears_of(spec, changed);
  for (size_t i = 0; i < to.size(); ++i)
    if (dense_rows(*to[i]).empty()) to[i]->weight = from[i]->weight;
  weights = std::move(changed);
}

int64_t whole_module_bytes(const ModelSpec& spec, const PeftConfig& config, DType dtype) {
  int64_t bytes = 0, largest = 0;
  for (const WholeModule& m : whole_modules(spec, config, "adapter_config.json")) {
    const int64_t numbers = m.info.shape.count();
    bytes += numbers * size_of(dtype), largest = std::max(largest, numbers);
  }
  return bytes + 3 * largest * size_of(wide_type(dtype));  // the one at hand: as read, summed, packed
}

bool untie_changed_head(const PeftConfig& config, ModelSpec& spec) {
  if (!spec.head().tied) return false;
  const std::vector<WholeModule> modules = whole_modules(spec, config, "adapter_config.json");
  const bool changes = std::ranges::any_of(
      modules, [](const WholeModule& m) { return m.is_tied_head || m.info.name == "embed.tokens"; });
  if (changes) std::get<HeadSpec>(spec.units.back().spec).tied = false;
  return changes;
}

}  // namespace tern
