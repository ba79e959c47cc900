#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"
#include "base/region_errors.h"
#include "formats/gguf/model.h"
#include "kernels/cpu/code_groups.h"
#include "kernels/cpu/coded_matmul.h"
#include "kernels/cpu/matmul.h"
#include "kernels/cpu/parallel.h"
#include "model/check_weights.h"
#include "model/coded_base.h"
#include "model/coded_tensors.h"
#include "model/file_bands.h"
#include "model/gguf_weights.h"
#include "model/model_files.h"
#include "model/names.h"
#include "model/number.h"
#include "model/ops.h"
#include "model/packed_matrix.h"
#include "model/parameter_reader.h"
#include "model/weights_file.h"

namespace tern {

std::string weights_file(const std::string& model_dir) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  if (fs::is_regular_file(model_dir, ignored)) return model_dir;
  for (const char* name : {"model.safetensors", "model.safetensors.index.json"})
    if (const fs::path p = fs::path(model_dir) / name; fs::exists(p, ignored)) return p.string();
  throw Error(
      ErrorKind::bad_file,
      "{}: no model.safetensors and no model.safetensors.index.json; expected the directory of a model with weights",
      model_dir);
}

namespace {

// The fragment's rows of `width` to `to`, from the view's elements, which lie as (file_rows, width), or as (width,
// file_rows) if transposed.
template <class From, class To>
void copy_rows(const TensorView& view, const Fragment& f, int64_t width, To* to) {
  const std::byte* from = view.bytes.data();
  const int64_t rows = f.row_end - f.row_begin;
  if (std::is_same_v<From, To> && !f.transposed && f.file_step == 1) {
    const int64_t row_bytes = width * static_cast<int64_t>(sizeof(From));
    from += f.file_row * row_bytes;
    // Touching memory for the first time costs more than copying: by all threads.
    parallel_ranges(rows * row_bytes, int64_t{1} << 20, 64, [&](int64_t begin, int64_t end) {
      std::memcpy(reinterpret_cast<std::byte*>(to) + begin, from + begin, static_cast<size_t>(end - begin));
    });
    return;
  }
#pragma omp parallel for
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t k = 0; k < width; ++k) {
      const int64_t row = f.file_row + r * f.file_step, at = f.transposed ? k * f.file_rows + row : row * width + k;
      to[r * width + k] = number_as<To>(load_number<From>(from + at * static_cast<int64_t>(sizeof(From))));
    }
}

}  // namespace

template <class To>
void copy_fragment(const TensorView& view, const std::string& path, const Fragment& f, int64_t width, To* to) {
  switch (view.dtype.value_or(DType::u8)) {
    case DType::f32:
      return copy_rows<float>(view, f, width, to);
    case DType::bf16:
      return copy_rows<bf16>(view, f, width, to);
    case DType::f16:
      return copy_rows<f16>(view, f, width, to);
    case DType::f64:
      return copy_rows<double>(view, f, width, to);
    default:
      break;
  }
  throw Error(ErrorKind::bad_file,
              "{}: tensor '{}' holds {}, expected F32, BF16, F16 or F64; quantized weights are not read yet", path,
              view.name, view.dtype_name);
}
template void copy_fragment(const TensorView&, const std::string&, const Fragment&, int64_t, float*);
template void copy_fragment(const TensorView&, const std::string&, const Fragment&, int64_t, bf16*);
template void copy_fragment(const TensorView&, const std::string&, const Fragment&, int64_t, double*);

namespace {

template <class To>
void unpack_fragment(const PackedMatrix& packed, const Fragment& f, To* to) {
  constexpr int64_t kAtOnce = 1024;
  const int64_t rows = f.row_end - f.row_begin, step = f.file_step == 1 ? kAtOnce : 1;
  std::vector<float> numbers;
  for (int64_t r = 0; r < rows; r += step) {
    const int64_t first = f.file_row + r * f.file_step, count = std::min(step, rows - r);
    numbers.resize(static_cast<size_t>(count * packed.in));
    unpack_rows(packed, first, first + count, numbers.data());
    std::ranges::transform(numbers, to + r * packed.in, [](float x) { return number_as<To>(x); });
  }
}

class Loader {
 public:
  Loader(const ModelSpec& spec, const std::string& path, WeightsIn in = WeightsIn::mapped_file)
      : spec_(spec),
        path_(path),
        in_(in),
        shared_(std::make_shared<Weights>(path)),
        file_(*shared_),
        packing_(hf_packing_beside(path)) {}

  void load(const ParameterInfo& info, Tensor& t) {
    const int64_t width = info.shape.rank == 2 ? info.shape[1] : 1;
    for (const Fragment& f : info.fragments) {
      if (const auto packed = packed_fragment(info, f)) {
        ops::by_dtype(t.dtype(),
                      [&]<class To>() { unpack_fragment(*packed, f, t.span<To>().data() + f.row_begin * width); });
        for (const std::string& tensor : packed->tensors) file_.dont_need(tensor);
        continue;
      }
      if (const auto coded = coded_fragment(info, f)) {
        ops::by_dtype(t.dtype(),
                      [&]<class To>() { decode_fragment(*coded, info, f, t.span<To>().data() + f.row_begin * width); });
        file_.dont_need(coded->rows.name);
        continue;
      }
      const TensorView view = fragment(info, f);
      ops::by_dtype(t.dtype(), [&]<class To>() {
        copy_fragment<To>(view, path_, f, width, t.span<To>().data() + f.row_begin * width);
      });
      if (f.file_row + (f.row_end - f.row_begin) == f.file_rows)
        file_.dont_need(view.name);  // else the mapped file would count beside its copy, as resident
    }
  }

  // A parameter that is read otherwise: that the file has it, in its shape.
  void claim(const ParameterInfo& info) {
    for (const Fragment& f : info.fragments)
      if (!packed_fragment(info, f) && !coded_fragment(info, f)) fragment(info, f);
  }

  // A matrix whose rows stay as the file codes them, or become blocks of a type that holds what it packs; nothing where they
  // lie otherwise, or are no shorter than its rows in `dtype`.
  std::optional<CodedWeight> stay_coded(const ParameterInfo& info, DType dtype, Arena& arena) {
    if (coded_size(info, dtype) == 0) return {};
    CodedWeight weight;
    for (const Fragment& f : info.fragments) {
      if (const auto packed = packed_fragment(info, f)) {
        const WeightType type = *exact_type(*packed);
        const int64_t rows = f.row_end - f.row_begin;
        Tensor t = arena.allocate(DType::u8, {stored_bytes(type, rows, packed->in)}, MemoryClass::weights);
        unpack_blocks(*packed, type, f.file_row, f.file_row + rows, static_cast<std::byte*>(t.data()));
        for (const std::string& tensor : packed->tensors) file_.dont_need(tensor);
        weight.pieces.push_back({type, std::move(t), rows, 0, {}});
        continue;
      }
      const auto coded = coded_fragment(info, f);
      const std::span<const std::byte> bytes = coded_bytes_of(*coded, info, f);
      // Kernels only read it: the file is mapped for reading alone.
      Tensor t = arena.adopt(DType::u8, {static_cast<int64_t>(bytes.size())}, const_cast<std::byte*>(bytes.data()),
                             shared_, MemoryClass::weights);
      weight.pieces.push_back({coded->type, std::move(t), f.row_end - f.row_begin, 0, coded->tables});
      uses_.push_back({std::string(coded->rows.name), bytes.data(), {}});
    }
    return weight;
  }
  // What it takes then; 0: it does not.
  int64_t coded_size(const ParameterInfo& info, DType dtype) const {
    if (!multiplies_coded(dtype) || info.shape.rank != 2) return 0;
    int64_t bytes = 0;
    for (const Fragment& f : info.fragments) {
      if (const auto packed = find_packed(f, info)) {
        const auto type = exact_type(*packed);
        if (!type || f.file_step != 1) return 0;
        bytes += stored_bytes(*type, f.row_end - f.row_begin, info.shape[1]);
        continue;
      }
      const auto coded = find_coded(spec_, file_, info, f);
      if (!coded || f.file_step != 1) return 0;
      bytes += static_cast<int64_t>(coded_bytes_of(*coded, info, f).size());
    }
    return bytes < info.shape[0] * info.shape[1] * size_of(dtype) ? bytes : 0;
  }

  // The rows of a matrix where they lie in the file, a tensor for each fragment; empty unless all of them lie there as
  // a computation in `dtype` reads them. With WeightsIn::own_memory tensors for them, which finish() fills.
  std::vector<Tensor> in_place(const ParameterInfo& info, DType dtype, Arena& arena) {
    std::vector<Tensor> pieces;
    std::vector<Use> uses;
    for (const Fragment& f : info.fragments) {
      if (packed_fragment(info, f) || coded_fragment(info, f)) return {};
      const TensorView view = fragment(info, f);
      const auto* data = view.bytes.data() + f.file_row * info.shape[1] * size_of(dtype);
      const bool aligned = reinterpret_cast<uintptr_t>(data) % static_cast<size_t>(size_of(dtype)) == 0;
      if (view.dtype != dtype || f.transposed || f.file_step != 1 || !aligned) return {};
      const Shape shape = {f.row_end - f.row_begin, info.shape[1]};
      const bool copies = in_ == WeightsIn::own_memory;
      // Kernels only read it: the file is mapped for reading alone.
      pieces.push_back(copies ? arena.allocate(dtype, shape, MemoryClass::weights)
                              : arena.adopt(dtype, shape, const_cast<std::byte*>(data), shared_, MemoryClass::weights));
      uses.push_back({std::string(view.name), data, copies ? pieces.back() : Tensor{}});
    }
    uses_.insert(uses_.end(), uses.begin(), uses.end());
    return pieces;
  }
  // The packed form of a matrix from its rows as they lie in the file; nothing where they lie otherwise. Never more
  // than one matrix has pages of the file and of its own.
  std::optional<Weight> pack(const ParameterInfo& info, DType dtype, const Linear& linear, Arena& arena) {
    const size_t before = uses_.size();
    const std::vector<Tensor> rows = in_place(info, dtype, arena);
    uses_.resize(before);
    if (rows.empty()) return {};
    Weight packed = packed_weight(linear, rows, arena);
    for (const Fragment& f : info.fragments) file_.dont_need(fragment(info, f).name);
    return packed;
  }

  // By all threads: maps the pages of what is used where it lies, or copies them. Large ones first, as a thread takes
  // one at a time.
  void finish() {
    std::ranges::stable_sort(uses_, [](const Use& a, const Use& b) { return a.copy.bytes() > b.copy.bytes(); });
    RegionErrors errors;
#pragma omp parallel for schedule(dynamic, 1)
    for (size_t i = 0; i < uses_.size(); ++i)
      if (!errors.any()) errors.guard([&] { bring(uses_[i]); });
    errors.rethrow();
  }

  // A file may hold a tied head beside the table; then both must be the same numbers.
  void check_tied_head() {
    const auto wrong = judge_tied_head(spec_, file_);
    if (!wrong) return;
    claimed_.emplace(kTiedHead);
    if (!wrong->empty()) throw Error(ErrorKind::bad_file, "{}: {}", path_, *wrong);
  }

  void check_all_claimed() const {
    for (size_t i = 0; i < file_.size(); ++i) {
      const std::string_view name = file_[i].name;
      if (claimed_.contains(std::string(name)) || is_harmless_buffer(name) || is_skipped_layer(spec_, name) ||
          is_beside_encoder(spec_, name) || is_idle_bias(file_, name))
        continue;
      throw Error(ErrorKind::bad_file,
                  "{}: tensor '{}' {} belongs to no parameter of this {} model with {} layers; another config.json?",
                  path_, name, shape_text(file_[i].shape), spec_.family, spec_.layers);
    }
  }

 private:
  // Files saved from the bare model lack the prefix.
  TensorView find(const std::string& name) {
    if (const auto view = find_parameter(spec_, file_, name)) {
      claimed_.emplace(view->name);
      return *view;
    }
    throw Error(ErrorKind::bad_file,
                "{}: tensor '{}' is missing; config.json implies it for this {} model with {} layers", path_, name,
                spec_.family, spec_.layers);
  }

  std::optional<CodedTensor> coded_fragment(const ParameterInfo& info, const Fragment& f) {
    auto coded = find_coded(spec_, file_, info, f);
    if (!coded) return {};
    claimed_.emplace(coded->rows.name);
    if (coded->tables) claimed_.emplace(coded->tables_name);
    return coded;
  }

  // The matrix that holds the fragment's rows, where another program packed it.
  std::optional<PackedMatrix> find_packed(const Fragment& f, const ParameterInfo& info) const {
    if (info.shape.rank != 2) return {};
    auto packed = tern::find_packed(spec_, file_, packing_, f.name, f.file_rows, info.shape[1]);
    if (packed && f.transposed)
      throw Error(ErrorKind::bad_file,
                  "{}: packed matrix '{}': {} models have (in, out) there, which tern does not unpack", path_,
                  packed->name, spec_.family);
    return packed;
  }
  std::optional<PackedMatrix> packed_fragment(const ParameterInfo& info, const Fragment& f) {
    auto packed = find_packed(f, info);
    if (packed) claimed_.insert(packed->tensors.begin(), packed->tensors.end());
    return packed;
  }

  TensorView fragment(const ParameterInfo& info, const Fragment& f) {
    const TensorView view = find(f.name);
    const std::vector<int64_t> want = fragment_shape(info, f);
    if (!std::ranges::equal(view.shape, want))
      throw Error(ErrorKind::bad_file,
                  "{}: tensor '{}' has shape {}, config.json implies {}; the two do not belong together", path_,
                  view.name, shape_text(view.shape), shape_text(want));
    return view;
  }

  struct Use {
    std::string name;
    const std::byte* data;  // in the file
    Tensor copy;            // empty: used where it lies
  };
  void bring(const Use& use) const {
    file_.populate(use.name);
    if (use.copy.empty()) return;
    std::memcpy(use.copy.data(), use.data, static_cast<size_t>(use.copy.bytes()));
    file_.dont_need(use.name);  // else the mapped file would count beside its copy, as resident
  }

  const ModelSpec& spec_;
  std::string path_;
  WeightsIn in_;
  std::shared_ptr<Weights> shared_;  // with every tensor that lies in it
  const Weights& file_;
  std::optional<HfPacking> packing_;
  std::unordered_set<std::string> claimed_;
  std::vector<Use> uses_;
};

void load_fixed(const ModelSpec& spec, Loader& loader, DType dtype, ModelWeights& weights, Arena& arena) {
  for_each_fixed(spec, weights, [&](const ParameterInfo& info, Tensor& t) {
    t = arena.allocate(ops::sum_dtype(dtype), info.shape, MemoryClass::weights);
    loader.load(info, t);
  });
}

ModelWeights load_stored(const ModelSpec& spec, Loader& loader, DType dtype, Arena& arena) {
  StoredWeights stored;
  for_each_stored(spec, [&](const ParameterInfo& info) {
    auto coded = loader.stay_coded(info, DType::f32, arena);
    TERN_CHECK(coded, "load_weights: '{}' is not coded there", info.name);
    stored.emplace(info.name, std::move(*coded));
  });
  ModelWeights weights = weights_beside(
      spec, std::move(stored), dtype, [&](const ParameterInfo& info, Tensor& t) { loader.load(info, t); }, arena);
  loader.check_tied_head();
  loader.check_all_claimed();
  loader.finish();
  return weights;
}

}  // namespace

std::vector<std::string> notes_on_weights(const std::string& model_dir) {
  try {
    const std::string path = is_gguf_path(model_dir) ? "" : weights_file(model_dir);
    if (path.ends_with(".index.json")) return Weights(path).notes();
  } catch (const Error&) {}  // for whoever loads them
  return {};
}

ModelWeights load_weights(const ModelSpec& spec, const std::string& model_dir, DType dtype, Arena& arena,
                          const std::vector<bool>& elsewhere) {
  const bool stored = has_stored_matrices(spec);
  TERN_CHECK(!stored || elsewhere.empty(), "load_weights: coded units on other ranks");
  if (is_gguf_path(model_dir))
    return stored ? load_gguf_stored(spec, std::make_shared<const Gguf>(model_dir), dtype, arena)
                  : load_gguf_weights(spec, Gguf(model_dir), dtype, arena, elsewhere);
  Loader loader(spec, weights_file(model_dir));
  if (stored) return load_stored(spec, loader, dtype, arena);
  ModelWeights weights = allocate_weights(spec, dtype, MemoryClass::weights, arena, elsewhere);
  for_each_parameter(spec, weights, [&](const ParameterInfo& info, Tensor& t) {
    t.empty() ? loader.claim(info) : loader.load(info, t);
  });
  for_each_fixed(spec, weights, [&](const ParameterInfo& info, Tensor& t) { loader.load(info, t); });
  loader.check_tied_head();
  loader.check_all_claimed();
  return weights;
}

Linear load_pooler(const ModelSpec& spec, const std::string& model_dir, DType dtype, Arena& arena) {
  const std::string path = weights_file(model_dir), name = std::string(spec.prefix) + "pooler.dense";
  if (!find_parameter(spec, Weights(path), name + ".weight"))
    throw Error(ErrorKind::bad_file, "{}: no tensor '{}.weight', so this model has no pooler; take another pooling",
                path, name);
  Loader loader(spec, path);
  const int64_t D = spec.width;
  Linear pooler{.out = D, .in = D};
  const auto load = [&](const char* suffix, Shape shape, Tensor& t) {
    t = arena.allocate(dtype, shape, MemoryClass::weights);
    loader.load({"pooler", shape, 0, false, false, 0, {{name + suffix, 0, D, false, 0, D}}}, t);
  };
  load(".weight", {D, D}, dense_rows(pooler));
  load(".bias", {D}, pooler.bias);
  return pooler;
}

CodedBytes coded_bytes(const ModelSpec& spec, const std::string& model_dir, DType dtype) {
  if (is_gguf_path(model_dir)) return gguf_coded_bytes(spec, Gguf(model_dir), dtype);
  const Loader loader(spec, weights_file(model_dir));
  CodedBytes bytes;
  for_each_codable(spec, [&](const ParameterInfo& info) {
    if (const int64_t size = loader.coded_size(info, dtype)) bytes[info.name] = size;
  });
  return bytes;
}

bool holds_coded(const ModelSpec& spec, const std::string& model_dir) {
  if (is_gguf_path(model_dir)) return true;
  const Weights file(weights_file(model_dir));
  const std::optional<HfPacking> packing = hf_packing_beside(file.path());
  bool any = false;
  for_each_codable(spec, [&](const ParameterInfo& info) {
    for (const Fragment& f : info.fragments)
      any = any || find_packed(spec, file, packing, f.name, f.file_rows, info.shape[1]) ||
            find_coded(spec, file, info, f);
  });
  return any;
}

bool reads_in_place(const ModelSpec& spec, const std::string& model_dir, DType dtype) {
  if (!reads_plain_weights(dtype) || is_gguf_path(model_dir)) return false;
  const Weights file(weights_file(model_dir));
  ModelWeights shapes = empty_weights(spec);
  bool any = false;
  for_each_parameter(spec, shapes, [&](const ParameterInfo& info, const Tensor&) {
    if (any || info.shape.rank != 2) return;
    any = std::ranges::all_of(info.fragments, [&](const Fragment& f) {
      if (find_coded(spec, file, info, f)) return false;
      const auto view = find_parameter(spec, file, f.name);
      return view && view->dtype == dtype && !f.transposed && f.file_step == 1;
    });
  });
  return any;
}

ModelWeights load_weights_to_infer(const ModelSpec& spec, const std::string& model_dir, DType dtype, Arena& arena,
                                   GivenWeights given) {
  if (is_gguf_path(model_dir)) return load_gguf_beside(spec, Gguf(model_dir), dtype, std::move(given), arena);
  Loader loader(spec, weights_file(model_dir));
  ModelWeights weights = empty_weights(spec);
  for_each_parameter(spec, weights, [&](const ParameterInfo& info, Tensor& t) {
    if (is_given(given, weights, info, t, dtype, arena)) return loader.claim(info);
    t = arena.allocate(dtype, info.shape, MemoryClass::weights);
    loader.load(info, t);
  });
  load_fixed(spec, loader, dtype, weights, arena);
  loader.check_tied_head();
  loader.check_all_claimed();
  put_given(spec, std::move(given), weights);
  pack_weights(spec, weights, arena);
  return weights;
}

void multiply_in_integers(const ModelSpec& spec, const std::string& path, ModelWeights& weights) {
  bool any = false;
  for_each_linear(spec, weights, [&](const ParameterInfo&, Linear& linear) {
    auto* coded = std::get_if<CodedWeight>(&linear.weight);
    if (!coded) return;
    coded->in_integers =
        std::ranges::all_of(coded->pieces, [](const CodedPiece& p) { return has_code_groups(p.type); });
    any |= coded->in_integers;
  });
  if (any) return;
  std::vector<std::string_view> names;
  for (const WeightTypeRow& row : kWeightTypes)
    if (has_code_groups(row.type)) names.push_back(row.name);
  throw Error(ErrorKind::bad_file, "{}: no matrix of a type that multiplies in integers ({}); leave --arithmetic out",
              path, fmt::join(names, ", "));
}

ModelWeights load_weights_to_infer(const ModelSpec& spec, const std::string& model_dir, DType dtype, Arena& arena,
                                   WeightsIn in) {
  if (is_gguf_path(model_dir) && (in == WeightsIn::coded_file || in == WeightsIn::coded_int8) && dtype != DType::f64)
    return load_gguf_as_coded(spec, std::make_shared<const Gguf>(model_dir), dtype, arena, in == WeightsIn::coded_int8);
  if (is_gguf_path(model_dir)) {
    ModelWeights weights = load_weights(spec, model_dir, dtype, arena);
    pack_weights(spec, weights, arena);
    return weights;
  }
  const bool packs = !reads_plain_weights(dtype);
  Loader loader(spec, weights_file(model_dir), packs ? WeightsIn::mapped_file : in);
  ModelWeights weights = empty_weights(spec);
  std::unordered_map<std::string, Weight> forms;  // of the matrices that do not stand as dense rows
  if (in == WeightsIn::coded_file || in == WeightsIn::coded_int8)
    for_each_codable(spec, [&](const ParameterInfo& info) {
      if (auto coded = loader.stay_coded(info, dtype, arena)) forms.emplace(info.name, std::move(*coded));
    });
  for_each_linear(spec, weights, [&](const ParameterInfo& info, Linear& linear) {
    if (forms.contains(info.name)) return;
    const bool is_tied_head = spec.head().tied && &linear == &head_of(weights).projection;
    if (packs && !is_tied_head)
      if (auto packed = loader.pack(info, dtype, linear, arena)) forms.emplace(info.name, std::move(*packed));
    if (packs || info.fragments.size() < 2) return;
    if (std::vector<Tensor> pieces = loader.in_place(info, dtype, arena); !pieces.empty())
      forms.emplace(info.name, RowPieces{std::move(pieces)});
  });
  for_each_parameter(spec, weights, [&](const ParameterInfo& info, Tensor& t) {
    if (const auto form = forms.find(info.name); form != forms.end()) {
      if (&t != &embed_of(weights).tokens || !std::holds_alternative<CodedWeight>(form->second)) return;
      t = arena.allocate(dtype, {0, info.shape[1]}, MemoryClass::weights);  // tells the type to compute in
      embed_of(weights).coded_tokens = std::get<CodedWeight>(form->second);
      return;
    }
    if (!packs && info.shape.rank == 2 && info.fragments.size() == 1)
      if (const std::vector<Tensor> whole = loader.in_place(info, dtype, arena); !whole.empty()) {
        t = whole.front();
        return;
      }
    t = arena.allocate(dtype, info.shape, MemoryClass::weights);
    loader.load(info, t);
  });
  load_fixed(spec, loader, dtype, weights, arena);
  share_storage(spec, weights);
  for_each_linear(spec, weights, [&](const ParameterInfo& info, Linear& linear) {
    if (const auto form = forms.find(info.name); form != forms.end()) linear.weight = form->second;
  });
  forms.clear();
  if (in == WeightsIn::coded_int8) multiply_in_integers(spec, model_dir, weights);
  loader.check_tied_head();
  loader.check_all_claimed();
  loader.finish();
  if (packs) pack_weights(spec, weights, arena);
  return weights;
}

struct ParameterReader::Files {
  const ModelSpec& spec;
  std::optional<Gguf> gguf;
  std::optional<Loader> loader;
};

ParameterReader::ParameterReader(const ModelSpec& spec, const std::string& model_dir)
    : files_(new Files{spec, {}, {}}) {
  const auto require = [](const WeightsCheck& check) {
    if (!check.problems.empty()) throw Error(ErrorKind::bad_file, "{}", check.problems.front());
  };
  if (is_gguf_path(model_dir)) {
    require(check_gguf_weights(spec, files_->gguf.emplace(model_dir)));
  } else {
    const std::string path = weights_file(model_dir);
    require(check_weights(spec, path));
    files_->loader.emplace(spec, path);
  }
}
ParameterReader::~ParameterReader() = default;

Tensor ParameterReader::read(const ParameterInfo& info, DType dtype, Arena& arena) {
  if (last_ == info.name && kept_.dtype() == dtype) return kept_;
  kept_ = {}, last_ = "";
  Tensor t = arena.allocate(dtype, info.shape, MemoryClass::weights);
  files_->gguf ? read_gguf_parameter(files_->spec, *files_->gguf, info, t) : files_->loader->load(info, t);
  kept_ = t, last_ = info.name;
  return t;
}

}  // namespace tern
