#include "model/adapter_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <type_traits>
#include <utility>

#include "base/error.h"
#include "base/io.h"
#include "base/wide_type.h"
#include "formats/safetensors/safetensors.h"
#include "formats/safetensors/write.h"
#include "model/allocate_weights.h"
#include "model/elastic.h"
#include "model/fragment.h"
#include "model/number.h"
#include "model/ops.h"
#include "model/row_lengths.h"
#include "model/saved_modules.h"
#include "model/visit_weights.h"
#include "model/weights_file.h"
#include "model/whole_modules.h"

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

// A, B and magnitudes of a branch as parameters of the files.
struct BranchInfo {
  ParameterInfo a, b, magnitude;  // magnitude: nameless where there is none
};
BranchInfo infos_of(const AdaptedPlace& place, const Branch& branch) {
  const std::string path = std::string(kPrefix) + place.path;
  const auto info = [&](const char* part, const Shape& shape) {
    return ParameterInfo{path + part, shape, place.unit, false, false, 0, {}};
  };
  BranchInfo infos{info(".lora_A.weight", branch.a.shape()), info(".lora_B.weight", branch.b.shape()), {}};
  const int64_t rank = branch.a.rows(), out = branch.b.rows();
  infos.a.fragments = {{infos.a.name, 0, rank, false, 0, rank}};
  for (const Fragment& f : place.out_rows)
    infos.b.fragments.push_back({infos.b.name, f.row_begin, f.row_end, false, f.file_row, out, f.file_step});
  if (!branch.has_magnitude) return infos;
  infos.magnitude = info(".lora_magnitude_vector", {out});
  for (const Fragment& f : place.out_rows)
    infos.magnitude.fragments.push_back(
        {infos.magnitude.name, f.row_begin, f.row_end, false, f.file_row, out, f.file_step});
  return infos;
}

// Errors: it is missing, or has another shape.
TensorView checked_view(const Safetensors& file, const ParameterInfo& info) {
  const auto view = file.find(info.name);
  if (!view)
    throw Error(ErrorKind::bad_file, "{}: tensor '{}' is missing; adapter_config.json implies it for this model",
                file.path(), info.name);
  const std::vector<int64_t> shape(info.shape.sizes.begin(), info.shape.sizes.begin() + info.shape.rank);
  if (!std::ranges::equal(view->shape, shape))
    throw Error(
        ErrorKind::bad_file,
        "{}: tensor '{}' has shape {}, the model and adapter_config.json imply {}; was it made for another model?",
        file.path(), info.name, shape_text(view->shape), shape_text(shape));
  return *view;
}

void read_parameter(const Safetensors& file, const ParameterInfo& info, const Tensor& to) {
  const TensorView view = checked_view(file, info);
  const int64_t width = info.shape.rank == 2 ? info.shape[1] : 1;
  ops::by_dtype(to.dtype(), [&]<class T>() {
    T* numbers = to.span<T>().data();
    for (const Fragment& f : info.fragments) copy_fragment(view, file.path(), f, width, numbers + f.row_begin * width);
    for (int64_t i = 0; i < to.count(); ++i)
      if (const auto x = number_as<double>(numbers[i]); !std::isfinite(x))
        throw Error(ErrorKind::bad_file, "{}: tensor '{}' holds {}, expected numbers that {} holds", file.path(),
                    info.name, x, name_of(to.dtype()));
  });
}

// What a branch holds of the file's magnitudes: how much longer they are than the rows of the weight.
void read_magnitudes(const Safetensors& file, const ParameterInfo& info, const Branch& b) {
  Arena beside;
  const Tensor m = beside.allocate(DType::f64, info.shape, MemoryClass::staging);
  read_parameter(file, info, m);
  const std::span<const double> squares = b.row_squares.span<double>(), read = m.span<double>();
  ops::by_dtype(b.magnitude.dtype(), [&]<class T>() {
    const std::span<T> longer = b.magnitude.span<T>();
    for (size_t i = 0; i < longer.size(); ++i) longer[i] = number_as<T>(read[i] - std::sqrt(squares[i]));
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
  if (!real_io().stat(path)) {
    const std::string inner = join_path(dir, "adapter");  // where a run of `tern adapt` writes it
    throw Error(ErrorKind::bad_file, "{}: there is no {}; expected the directory of a PEFT adapter{}", dir, name,
                real_io().stat(join_path(inner, name)) ? ", as " + inner + " is" : "");
  }
  return path;
}

// A matrix of `rows` rows in the wide type; f says for each number where it comes from in `from`, and it is divided by `over`.
template <class Place>
Tensor spread(const Tensor& from, int64_t rows, int64_t columns, int64_t over, Arena& arena, Place&& f) {
  const Tensor to = arena.allocate(wide_type(from.dtype()), {rows, columns}, MemoryClass::staging);
  ops::by_dtype(from.dtype(), [&]<class T>() {
    const std::span<const T> numbers = from.span<T>();
    using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;
    const std::span<Wide> out = to.span<Wide>();
    for (size_t i = 0; i < out.size(); ++i)
      out[i] = static_cast<Wide>(number_as<double>(numbers[static_cast<size_t>(f(static_cast<int64_t>(i)))]) /
                                 static_cast<double>(over));
  });
  return to;
}

std::string parent_module(const std::string& tensor) { return tensor.substr(0, tensor.rfind('.')); }

TensorToWrite as_it_is(const Safetensors& file, const std::string& name) {
  const auto view = file.find(name);
  if (!view || !view->dtype)
    throw Error(ErrorKind::bad_file, "{}: tensor '{}' is missing; adapter_config.json implies it for this model",
                file.path(), name);
  return {name, *view->dtype, {view->shape.begin(), view->shape.end()}, view->bytes, {}};
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

ModelSpec with_adapters(ModelSpec spec, const PeftConfig& config, std::string_view where, AdapterParts parts) {
  const std::vector<WholeModule> whole = whole_modules(spec, config, where);
  if (!whole.empty() && parts == AdapterParts::matrices)
    throw Error(ErrorKind::bad_file,
                "{}: {} would be changed as a whole (modules_to_save, or a table or the head among the targets): "
                "generate, chat, eval and adapt merge follow that, for one adapter; here only matrices of layers are",
                where, parent_module(whole.front().info.fragments.front().name));
  const std::vector<AdaptedPlace> places = adapted_places(spec);
  spec = with_adapters(std::move(spec), 0);
  bool any = !whole.empty();
  for (const AdaptedPlace& p : places)
    if (const auto adapter = peft_adapter_of(config, p.path)) {
      spec.units[static_cast<size_t>(p.unit)].adapters.push_back(
          {.module = p.module, .rank = adapter->rank, .scale = adapter->scale, .magnitude = config.magnitude});
      any = true;
    }
  if (any) return spec;
  std::set<std::string> names;
  for (const AdaptedPlace& p : places) names.insert(p.path.substr(p.path.rfind('.') + 1));
  throw Error(ErrorKind::bad_file, "{} names no matrix of this {} model that tern adapts; it has {} in its layers",
              where, spec.family, fmt::join(names, ", "));
}

Branch written_out(const Branch& b, Arena& arena) {
  Branch whole = b;
  if (b.is_elastic) {
    const ElasticShares shares = shares_of(b);
    whole.a = with_elastic(b.a, shares.of_inputs, arena), whole.b = with_elastic(b.b, shares.of_hidden, arena);
    whole.is_elastic = false, whole.elastic = {};
  }
  if (b.pool > 1) {
    const int64_t in = b.a.count() / b.rank * b.pool;
    whole.a = spread(b.a, b.rank, in, b.pool, arena, [&](int64_t i) { return i / b.pool; }), whole.pool = 1;
  }
  if (b.repeat > 1) {
    const auto place = [&](int64_t i) { return i / b.rank / b.repeat * b.rank + i % b.rank; };
    whole.b = spread(b.b, b.row_end - b.row_begin, b.rank, 1, arena, place), whole.repeat = 1;
  }
  return whole;
}

std::string peft_config_file(const std::string& dir) { return file_of(dir, "adapter_config.json"); }
std::string peft_weights_file(const std::string& dir) { return file_of(dir, "adapter_model.safetensors"); }

// Magnitudes are read by `read_magnitude(file, info, branch)`.
template <class ReadMagnitude>
static void fill_branches(const ModelSpec& spec, const std::string& dir, DType dtype, ModelWeights& weights,
                          Arena& arena, const std::vector<std::string>& others, ReadMagnitude&& read_magnitude) {
  const Safetensors file(peft_weights_file(dir));
  for_each_adapter(spec, weights, [&](const ParameterInfo& info, Tensor& t) {
    if (t.empty()) t = arena.allocate(dtype, info.shape, MemoryClass::weights);
  });
  std::set<std::string, std::less<>> claimed(others.begin(), others.end());
  for_each_branch(spec, weights, [&](const AdaptedPlace& place, const Linear&, const Branch& b) {
    const BranchInfo infos = infos_of(place, b);
    claimed.insert({infos.a.name, infos.b.name});
    read_parameter(file, infos.a, b.a);
    read_parameter(file, infos.b, b.b);
    if (!b.has_magnitude) return;
    claimed.insert(infos.magnitude.name);
    read_magnitude(file, infos.magnitude, b);
  });
  for (size_t i = 0; i < file.size(); ++i)
    if (!claimed.contains(file[i].name))
      throw Error(ErrorKind::bad_file,
                  "{}: tensor '{}' belongs to no adapter or module that adapter_config.json gives this model",
                  file.path(), file[i].name);
}

void load_adapters(const ModelSpec& spec, const std::string& dir, DType dtype, ModelWeights& weights, Arena& arena,
                   const std::vector<std::string>& others) {
  fill_branches(spec, dir, dtype, weights, arena, others, read_magnitudes);
}

void check_adapter(const ModelSpec& adapted, const std::string& dir, DType dtype) {
  Arena beside;
  ModelWeights own = empty_weights(adapted);
  fill_branches(adapted, dir, dtype, own, beside, {},
                [](const Safetensors& file, const ParameterInfo& info, const Branch&) { checked_view(file, info); });
}

void load_adapter_beside(const ModelSpec& adapted, const std::string& model_dir, const std::string& dir, DType dtype,
                         int number, ModelWeights& weights, Arena& arena) {
  ModelWeights own = empty_weights(adapted);
  measure_rows(adapted, model_dir, dtype, own, arena);
  load_adapters(adapted, dir, dtype, own, arena);
  fix_row_factors(adapted, model_dir, dtype, own);
  std::vector<Linear*> places;
  for_each_linear(adapted, weights, [&](const ParameterInfo&, Linear& linear) { places.push_back(&linear); });
  auto place = places.begin();
  for_each_linear(adapted, own, [&](const ParameterInfo&, Linear& linear) {
    for (Branch& b : linear.branches) b.adapter = number, (*place)->branches.push_back(std::move(b));
    ++place;
  });
}

void save_adapters(const ModelSpec& spec, const PeftConfig& config, const ModelWeights& weights, const std::string& dir,
                   Io& io, const std::string& whole_from) {
  ModelWeights handles = weights;  // the visitor hands out places; storage is shared
  std::vector<TensorToWrite> entries;
  Arena arena;
  for_each_branch(spec, handles, [&](const AdaptedPlace& place, const Linear&, const Branch& b) {
    const Branch whole = written_out(b, arena);
    const BranchInfo infos = infos_of(place, whole);
    const auto add = [&](const ParameterInfo& info, const Tensor& t) {
      entries.push_back(dense_tensor(
          info, info.fragments, [t] { return t; }, wide_type(t.dtype())));
    };
    add(infos.a, whole.a), add(infos.b, whole.b);
    if (!b.has_magnitude) return;
    const Tensor m = arena.allocate(wide_type(b.magnitude.dtype()), b.magnitude.shape(), MemoryClass::staging);
    const std::vector<double> lengths = magnitudes(b);
    for (size_t i = 0; i < lengths.size(); ++i) {
      if (m.dtype() == DType::f64)
        m.span<double>()[i] = lengths[i];
      else
        m.span<float>()[i] = static_cast<float>(lengths[i]);
    }
    add(infos.magnitude, m);
  });
  std::optional<Safetensors> others;  // bytes of entries lie there
  if (!whole_from.empty()) {
    others.emplace(peft_weights_file(whole_from));
    for (const std::string& name : whole_module_tensors(spec, config, whole_from))
      entries.push_back(as_it_is(*others, name));
  } else if (!config.saved.empty()) {
    for (TensorToWrite& entry : saved_module_entries(spec, config, weights)) entries.push_back(std::move(entry));
  }
  make_dirs(io, dir);
  write_safetensors(io, join_path(dir, "adapter_model.safetensors"), entries);
  write_file_atomically(io, join_path(dir, "adapter_config.json"), peft_config_json(config));
}

}  // namespace tern
