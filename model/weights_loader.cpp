#include "model/weights_loader.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/region_errors.h"
#include "base/weight_type.h"
#include "model/fragment.h"
#include "model/model_files.h"
#include "model/names.h"
#include "model/number.h"
#include "model/ops.h"
#include "model/visit_weights.h"

namespace tern {
namespace {

template <class To>
void unpack_fragment(const HfQuantizedMatrix& quantized, const Fragment& f, To* to) {
  constexpr int64_t kAtOnce = 1024;
  const int64_t rows = f.row_end - f.row_begin, step = f.file_step == 1 ? kAtOnce : 1;
  std::vector<float> numbers;
  for (int64_t r = 0; r < rows; r += step) {
    const int64_t first = f.first_row() + r * f.file_step, count = std::min(step, rows - r);
    numbers.resize(static_cast<size_t>(count * quantized.in));
    unpack_rows(quantized, first, first + count, numbers.data());
    std::ranges::transform(numbers, to + r * quantized.in, [](float x) { return number_as<To>(x); });
  }
}

// The fragment's rows as blocks of the type.
void unpack_fragment_blocks(const HfQuantizedMatrix& quantized, WeightType type, const Fragment& f, std::byte* to) {
  const int64_t rows = f.row_end - f.row_begin, first = f.first_row();
  if (f.file_step == 1) return unpack_blocks(quantized, type, first, first + rows, to);
  const int64_t row_bytes = stored_bytes(type, 1, quantized.in);
#pragma omp parallel for
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t row = first + r * f.file_step;
    unpack_blocks(quantized, type, row, row + 1, to + r * row_bytes);
  }
}

// The fragment's coded rows, which lie apart, one behind the other.
void gather_coded(const CodedTensor& coded, const Fragment& f, int64_t row_bytes, std::byte* to) {
  for (int64_t r = 0; r < f.row_end - f.row_begin; ++r)
    std::memcpy(to + r * row_bytes, coded.rows.bytes.data() + (f.first_row() + r * f.file_step) * row_bytes,
                static_cast<size_t>(row_bytes));
}

}  // namespace

WeightsLoader::WeightsLoader(const ModelSpec& spec, const std::string& path, WeightsIn in)
    : spec_(spec),
      path_(path),
      in_(in),
      shared_(std::make_shared<Weights>(path)),
      file_(*shared_),
      packing_(hf_packing_beside(path)) {}

void WeightsLoader::load(const ParameterInfo& info, Tensor& t) {
  const int64_t width = info.shape.rank == 2 ? info.shape[1] : 1;
  for (const Fragment& f : info.fragments) {
    if (const auto quantized = hf_quantized_fragment(info, f)) {
      ops::by_dtype(t.dtype(),
                    [&]<class To>() { unpack_fragment(*quantized, f, t.span<To>().data() + f.row_begin * width); });
      for (const std::string& tensor : quantized->tensors) file_.dont_need(tensor);
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
    if (f.file_row + (f.row_end - f.row_begin - 1) * f.file_step + 1 == f.file_rows)
      file_.dont_need(view.name);  // else the mapped file would count beside its copy, as resident
  }
}

void WeightsLoader::claim(const ParameterInfo& info) {
  for (const Fragment& f : info.fragments)
    if (!hf_quantized_fragment(info, f) && !coded_fragment(info, f)) fragment(info, f);
}

std::optional<CodedWeight> WeightsLoader::stay_coded(const ParameterInfo& info, DType dtype, Arena& arena) {
  if (coded_size(info, dtype) == 0) return {};
  CodedWeight weight;
  for (const Fragment& f : info.fragments) {
    if (const auto quantized = hf_quantized_fragment(info, f)) {
      const WeightType type = *exact_type(*quantized);
      const int64_t rows = f.row_end - f.row_begin;
      Tensor t = arena.allocate(DType::u8, {stored_bytes(type, rows, quantized->in)}, MemoryClass::weights);
      unpack_fragment_blocks(*quantized, type, f, static_cast<std::byte*>(t.data()));
      for (const std::string& tensor : quantized->tensors) file_.dont_need(tensor);
      weight.pieces.push_back({type, std::move(t), rows, 0, {}});
      continue;
    }
    const auto coded = coded_fragment(info, f);
    if (f.file_step != 1) {
      const int64_t row_bytes = stored_bytes(coded->type, 1, info.shape[1]), rows = f.row_end - f.row_begin;
      Tensor t = arena.allocate(DType::u8, {rows * row_bytes}, MemoryClass::weights);
      gather_coded(*coded, f, row_bytes, static_cast<std::byte*>(t.data()));
      file_.dont_need(coded->rows.name);
      weight.pieces.push_back({coded->type, std::move(t), rows, 0, coded->tables});
      continue;
    }
    const std::span<const std::byte> bytes = coded_bytes_of(*coded, info, f);
    // Kernels only read it: the file is mapped for reading alone.
    Tensor t = arena.adopt(DType::u8, {static_cast<int64_t>(bytes.size())}, const_cast<std::byte*>(bytes.data()),
                           shared_, MemoryClass::weights);
    weight.pieces.push_back({coded->type, std::move(t), f.row_end - f.row_begin, 0, coded->tables});
    uses_.push_back({std::string(coded->rows.name), bytes.data(), {}});
  }
  return weight;
}

int64_t WeightsLoader::coded_size(const ParameterInfo& info, DType dtype) const {
  if (info.shape.rank != 2) return 0;
  const auto multiplies = [&](WeightType type) {
    return multiplies_as_coded(type, info.shape[1], dtype, in_ == WeightsIn::coded_int8);
  };
  int64_t bytes = 0;
  for (const Fragment& f : info.fragments) {
    if (const auto quantized = find_hf_quantized(f, info)) {
      const auto type = exact_type(*quantized);
      if (!type || !multiplies(*type)) return 0;
      bytes += stored_bytes(*type, f.row_end - f.row_begin, info.shape[1]);
      continue;
    }
    const auto coded = find_coded(spec_, file_, info, f);
    if (!coded || !multiplies(coded->type)) return 0;
    bytes += stored_bytes(coded->type, f.row_end - f.row_begin, info.shape[1]);
  }
  return bytes < info.shape[0] * info.shape[1] * size_of(dtype) ? bytes : 0;
}

std::vector<Tensor> WeightsLoader::in_place(const ParameterInfo& info, DType dtype, Arena& arena) {
  std::vector<Tensor> pieces;
  std::vector<Use> uses;
  for (const Fragment& f : info.fragments) {
    if (hf_quantized_fragment(info, f) || coded_fragment(info, f)) return {};
    const TensorView view = fragment(info, f);
    const auto* data = view.bytes.data() + f.first_row() * info.shape[1] * size_of(dtype);
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

std::optional<Weight> WeightsLoader::pack(const ParameterInfo& info, DType dtype, const Linear& linear, Arena& arena) {
  const size_t before = uses_.size();
  const std::vector<Tensor> rows = in_place(info, dtype, arena);
  uses_.resize(before);
  if (rows.empty()) return {};
  Weight packed = packed_weight(linear, rows, arena);
  for (const Fragment& f : info.fragments) file_.dont_need(fragment(info, f).name);
  return packed;
}

void WeightsLoader::finish() {
  std::ranges::stable_sort(uses_, [](const Use& a, const Use& b) { return a.copy.bytes() > b.copy.bytes(); });
  RegionErrors errors;
#pragma omp parallel for schedule(dynamic, 1)
  for (size_t i = 0; i < uses_.size(); ++i)
    if (!errors.any()) errors.guard([&] { bring(uses_[i]); });
  errors.rethrow();
}

void WeightsLoader::check_tied_head() {
  const auto wrong = judge_tied_head(spec_, file_);
  if (!wrong) return;
  claimed_.emplace(kTiedHead);
  if (!wrong->empty()) throw Error(ErrorKind::bad_file, "{}: {}", path_, *wrong);
}

void WeightsLoader::check_all_claimed() const {
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

TensorView WeightsLoader::find(const std::string& name) {
  if (const auto view = find_parameter(spec_, file_, name)) {
    claimed_.emplace(view->name);
    return *view;
  }
  throw Error(ErrorKind::bad_file,
              "{}: tensor '{}' is missing; config.json implies it for this {} model with {} layers", path_, name,
              spec_.family, spec_.layers);
}

std::optional<CodedTensor> WeightsLoader::coded_fragment(const ParameterInfo& info, const Fragment& f) {
  auto coded = find_coded(spec_, file_, info, f);
  if (!coded) return {};
  claimed_.emplace(coded->rows.name);
  if (coded->tables) claimed_.emplace(coded->tables_name);
  return coded;
}

std::optional<HfQuantizedMatrix> WeightsLoader::find_hf_quantized(const Fragment& f, const ParameterInfo& info) const {
  if (info.shape.rank != 2) return {};
  auto quantized = tern::find_hf_quantized(spec_, file_, packing_, f, info.shape[1]);
  if (quantized && f.transposed && quantized->packing != HfPacking::mxfp4)  // whose rows are outputs
    throw Error(ErrorKind::bad_file,
                "{}: packed matrix '{}': {} models have (in, out) there, which tern does not unpack", path_,
                quantized->name, spec_.family);
  return quantized;
}

std::optional<HfQuantizedMatrix> WeightsLoader::hf_quantized_fragment(const ParameterInfo& info, const Fragment& f) {
  auto quantized = find_hf_quantized(f, info);
  if (quantized) claimed_.insert(quantized->tensors.begin(), quantized->tensors.end());
  return quantized;
}

TensorView WeightsLoader::fragment(const ParameterInfo& info, const Fragment& f) {
  const TensorView view = find(f.name);
  const std::vector<int64_t> want = fragment_shape(info, f);
  if (!std::ranges::equal(view.shape, want))
    throw Error(ErrorKind::bad_file,
                "{}: tensor '{}' has shape {}, config.json implies {}; the two do not belong together", path_,
                view.name, shape_text(view.shape), shape_text(want));
  return view;
}

void WeightsLoader::bring(const Use& use) const {
  file_.populate(use.name);
  if (use.copy.empty()) return;
  std::memcpy(use.copy.data(), use.data, static_cast<size_t>(use.copy.bytes()));
  file_.dont_need(use.name);  // else the mapped file would count beside its copy, as resident
}

}  // namespace tern
