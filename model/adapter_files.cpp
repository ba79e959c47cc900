#include "model/adapter_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/io.h"
#include "formats/safetensors/safetensors.h"
#include "formats/safetensors/write.h"
#include "model/ops.h"

namespace tern {
namespace {

constexpr std::string_view kPrefix = "base_model.model.", kWeight = ".weight";

using ByUnit = std::map<std::pair<int, AdaptedModule>, AdaptedPlace>;
ByUnit places_by_unit(const ModelSpec& spec) {
  ByUnit places;
  for (AdaptedPlace& p : adapted_places(spec)) {
    const std::pair key(p.unit, p.module);
    places.emplace(key, std::move(p));
  }
  return places;
}

// Row r of our B is row `rows[r]` of the file's.
std::vector<int64_t> file_rows(const AdaptedPlace& place) {
  std::vector<int64_t> rows;
  for (const Fragment& f : place.out_rows)
    for (int64_t r = f.row_begin; r < f.row_end; ++r) rows.push_back(f.file_row + (r - f.row_begin) * f.file_step);
  return rows;
}

std::string a_name(const AdaptedPlace& p) { return std::string(kPrefix) + p.path + ".lora_A.weight"; }
std::string b_name(const AdaptedPlace& p) { return std::string(kPrefix) + p.path + ".lora_B.weight"; }

template <class T>
double number_at(const std::byte* bytes, int64_t i) {
  T x;
  std::memcpy(&x, bytes + i * static_cast<int64_t>(sizeof x), sizeof x);
  if constexpr (std::is_floating_point_v<T>)
    return static_cast<double>(x);
  else
    return static_cast<double>(to_float(x));
}

double element(const TensorView& view, const std::string& path, int64_t i) {
  switch (view.dtype.value_or(DType::u8)) {
    case DType::f32:
      return number_at<float>(view.bytes.data(), i);
    case DType::bf16:
      return number_at<bf16>(view.bytes.data(), i);
    case DType::f16:
      return number_at<f16>(view.bytes.data(), i);
    case DType::f64:
      return number_at<double>(view.bytes.data(), i);
    default:
      throw Error(ErrorKind::bad_file, "{}: tensor '{}' holds {}, expected F32, BF16, F16 or F64", path, view.name,
                  view.dtype_name);
  }
}

template <class T>
T rounded(double x) {
  if constexpr (std::is_same_v<T, bf16>)
    return to_bf16(static_cast<float>(x));
  else
    return static_cast<T>(x);
}

// Row r of `to` from row rows[r] of the file's tensor; all in their order where `rows` is empty.
void read_tensor(const Safetensors& file, const std::string& name, const std::vector<int64_t>& rows, const Tensor& to) {
  const auto view = file.find(name);
  if (!view)
    throw Error(ErrorKind::bad_file, "{}: tensor '{}' is missing; adapter_config.json implies it for this model",
                file.path(), name);
  const int64_t width = to.count() / to.rows();
  if (!std::ranges::equal(view->shape, std::vector<int64_t>{to.rows(), width}))
    throw Error(ErrorKind::bad_file, "{}: tensor '{}' has shape {}, the model and adapter_config.json imply ({}, {})",
                file.path(), name, shape_text(view->shape), to.rows(), width);
  ops::by_dtype(to.dtype(), [&]<class T>() {
    for (int64_t r = 0; r < to.rows(); ++r)
      for (int64_t k = 0; k < width; ++k) {
        const int64_t row = rows.empty() ? r : rows[static_cast<size_t>(r)];
        const double x = element(*view, file.path(), row * width + k);
        if (!std::isfinite(x))
          throw Error(ErrorKind::bad_file, "{}: tensor '{}' holds {} at ({}, {})", file.path(), name, x, row, k);
        to.span<T>()[static_cast<size_t>(r * width + k)] = rounded<T>(x);
      }
  });
}

// Calls `visit` with every branch and what the files call its module.
template <class Visit>
void for_each_branch(const ModelSpec& spec, ModelWeights& weights, Visit&& visit) {
  const ByUnit places = places_by_unit(spec);
  for_each_linear(spec, weights, [&](const ParameterInfo& info, Linear& linear) {
    for (Branch& b : linear.branches) visit(places.at({info.unit, b.module}), linear, b);
  });
}

std::string file_of(const std::string& dir, std::string_view name) {
  const std::string path = join_path(dir, name);
  if (!real_io().stat(path))
    throw Error(ErrorKind::bad_file, "{}: there is no {}; expected the directory of a PEFT adapter", dir, name);
  return path;
}

TensorToWrite entry(std::string name, const Tensor& t, const std::vector<int64_t>& file_row_of) {
  const int64_t rows = t.rows(), width = t.count() / rows;
  std::vector<int64_t> order(static_cast<size_t>(rows));
  for (size_t r = 0; r < order.size(); ++r)
    order[file_row_of.empty() ? r : static_cast<size_t>(file_row_of[r])] = static_cast<int64_t>(r);
  const bool wide = t.dtype() == DType::f64;
  TensorToWrite e{.name = std::move(name),
                  .dtype = wide ? DType::f64 : DType::f32,
                  .shape = {rows, width},
                  .bytes = {},
                  .produce = {}};
  e.produce = [t, order, width](const ByteSink& sink) {
    ops::by_dtype(t.dtype(), [&]<class T>() {
      using Out = std::conditional_t<std::is_same_v<T, double>, double, float>;
      std::vector<Out> row(static_cast<size_t>(width));
      for (const int64_t r : order) {
        for (int64_t k = 0; k < width; ++k) {
          const T x = t.span<T>()[static_cast<size_t>(r * width + k)];
          if constexpr (std::is_same_v<T, bf16>)
            row[static_cast<size_t>(k)] = to_float(x);
          else
            row[static_cast<size_t>(k)] = x;
        }
        sink(std::as_bytes(std::span(row)));
      }
    });
  };
  return e;
}

}  // namespace

std::vector<AdaptedPlace> adapted_places(const ModelSpec& spec) {
  ModelSpec all = with_adapters(spec, 0);
  for (Unit& unit : all.units)
    if (!moe_of(unit))
      for (const AdaptedModule module : adapted_modules(unit, spec.names)) unit.adapters.push_back({module, 1, 1});
  std::vector<AdaptedPlace> places;
  ModelWeights shapes = empty_weights(all);
  for_each_linear(all, shapes, [&](const ParameterInfo& info, const Linear& linear) {
    for (const Branch& b : linear.branches) {
      AdaptedPlace place{info.unit, b.module, "", {}};
      for (const Fragment& f : info.fragments) {
        if (f.row_begin < b.row_begin || f.row_end > b.row_end) continue;
        place.path = f.name.substr(0, f.name.size() - kWeight.size());
        place.out_rows.push_back(f);
        place.out_rows.back().row_begin -= b.row_begin, place.out_rows.back().row_end -= b.row_begin;
      }
      TERN_CHECK(!place.out_rows.empty(), "adapters: '{}' has no file name for its {}", info.name, name_of(b.module));
      places.push_back(std::move(place));
    }
  });
  return places;
}

ModelSpec with_adapters(ModelSpec spec, const PeftConfig& config, std::string_view where) {
  const std::vector<AdaptedPlace> places = adapted_places(spec);
  spec = with_adapters(std::move(spec), 0);
  bool any = false;
  for (const AdaptedPlace& p : places)
    if (const auto adapter = peft_adapter_of(config, p.path)) {
      spec.units[static_cast<size_t>(p.unit)].adapters.push_back({p.module, adapter->rank, adapter->scale});
      any = true;
    }
  if (any) return spec;
  std::set<std::string> names;
  for (const AdaptedPlace& p : places) names.insert(p.path.substr(p.path.rfind('.') + 1));
  throw Error(ErrorKind::bad_file, "{} names no matrix of this {} model that tern adapts; it has {} in its layers",
              where, spec.family, fmt::join(names, ", "));
}

std::string peft_config_file(const std::string& dir) { return file_of(dir, "adapter_config.json"); }
std::string peft_weights_file(const std::string& dir) { return file_of(dir, "adapter_model.safetensors"); }

void load_adapters(const ModelSpec& spec, const std::string& dir, DType dtype, ModelWeights& weights, Arena& arena) {
  const Safetensors file(peft_weights_file(dir));
  for_each_adapter(spec, weights, [&](const ParameterInfo& info, Tensor& t) {
    if (t.empty()) t = arena.allocate(dtype, info.shape, MemoryClass::weights);
  });
  std::set<std::string, std::less<>> claimed;
  for_each_branch(spec, weights, [&](const AdaptedPlace& place, const Linear&, const Branch& b) {
    read_tensor(file, *claimed.insert(a_name(place)).first, {}, b.a);
    read_tensor(file, *claimed.insert(b_name(place)).first, file_rows(place), b.b);
  });
  for (size_t i = 0; i < file.size(); ++i)
    if (!claimed.contains(file[i].name))
      throw Error(ErrorKind::bad_file,
                  "{}: tensor '{}' belongs to no adapter that adapter_config.json gives this model; tern adapts the "
                  "matrices of layers alone",
                  file.path(), file[i].name);
}

void load_adapter_beside(const ModelSpec& adapted, const std::string& dir, DType dtype, int number,
                         ModelWeights& weights, Arena& arena) {
  ModelWeights own = empty_weights(adapted);
  load_adapters(adapted, dir, dtype, own, arena);
  std::vector<Linear*> places;
  for_each_linear(adapted, weights, [&](const ParameterInfo&, Linear& linear) { places.push_back(&linear); });
  auto place = places.begin();
  for_each_linear(adapted, own, [&](const ParameterInfo&, Linear& linear) {
    for (Branch& b : linear.branches) b.adapter = number, (*place)->branches.push_back(std::move(b));
    ++place;
  });
}

void save_adapters(const ModelSpec& spec, const PeftConfig& config, const ModelWeights& weights, const std::string& dir,
                   Io& io) {
  ModelWeights handles = weights;  // the visitor hands out places; storage is shared
  std::vector<TensorToWrite> entries;
  for_each_branch(spec, handles, [&](const AdaptedPlace& place, const Linear&, const Branch& b) {
    entries.push_back(entry(a_name(place), b.a, {}));
    entries.push_back(entry(b_name(place), b.b, file_rows(place)));
  });
  make_dirs(io, dir);
  write_safetensors(io, join_path(dir, "adapter_model.safetensors"), entries);
  write_file_atomically(io, join_path(dir, "adapter_config.json"), peft_config_json(config));
}

}  // namespace tern
