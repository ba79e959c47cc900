#include <algorithm>
#include <functional>
#include <vector>

#include "base/error.h"
#include "base/io.h"
#include "base/wide_type.h"
#include "formats/hf/config.h"
#include "formats/safetensors/shards.h"
#include "formats/safetensors/write.h"
#include "model/fragment.h"
#include "model/model_files.h"
#include "model/number.h"
#include "model/ops.h"
#include "model/save_parts.h"
#include "model/visit_weights.h"
#include "model/weights_file.h"

namespace tern {

namespace {

constexpr int64_t kPieceElements = 1 << 16;  // handed to the writer at a time

// Elements of a fragment in the order of the file, (rows, width) or transposed.
template <class From, class To>
void produce(const Tensor& t, std::span<const int64_t> rows, int64_t width, bool transposed, const ByteSink& sink) {
  const From* from = t.span<From>().data();
  std::vector<To> piece;
  const auto put = [&](int64_t row, int64_t column) {
    piece.push_back(number_as<To>(from[row * width + column]));
    if (static_cast<int64_t>(piece.size()) < kPieceElements) return;
    sink(std::as_bytes(std::span(piece)));
    piece.clear();
  };
  if (transposed) {
    for (int64_t column = 0; column < width; ++column)
      for (const int64_t row : rows) put(row, column);
  } else {
    for (const int64_t row : rows)
      for (int64_t column = 0; column < width; ++column) put(row, column);
  }
  if (!piece.empty()) sink(std::as_bytes(std::span(piece)));
}

template <class To>
void produce_any(const Tensor& t, std::span<const Fragment> fragments, int64_t width, const ByteSink& sink) {
  ops::by_dtype(t.dtype(), [&]<class From>() {
    produce<From, To>(t, rows_of_file(fragments), width, fragments.front().transposed, sink);
  });
}

}  // namespace

std::vector<int64_t> rows_of_file(std::span<const Fragment> fragments) {
  std::vector<int64_t> rows(static_cast<size_t>(fragments.front().file_rows), -1);
  for (const Fragment& f : fragments)
    for (int64_t r = f.row_begin; r < f.row_end; ++r)
      rows.at(static_cast<size_t>(f.file_row + (r - f.row_begin) * f.file_step)) = r;
  TERN_CHECK(std::ranges::count(rows, -1) == 0, "save: '{}': rows that no fragment has", fragments.front().name);
  return rows;
}

std::vector<std::vector<Fragment>> fragments_by_tensor(const ParameterInfo& info) {
  std::vector<std::vector<Fragment>> tensors;
  for (const Fragment& f : info.fragments) {
    const auto at =
        std::ranges::find_if(tensors, [&](const auto& fragments) { return fragments.front().name == f.name; });
    (at == tensors.end() ? tensors.emplace_back() : *at).push_back(f);
  }
  return tensors;
}

TensorToWrite dense_tensor(const ParameterInfo& info, const std::vector<Fragment>& fragments,
                           const std::function<Tensor()>& read, DType dtype) {
  const int64_t width = info.shape.rank == 2 ? info.shape[1] : 1;
  const Fragment& first = fragments.front();
  TensorToWrite e{.name = first.name, .dtype = dtype, .shape = {first.file_rows}, .bytes = {}, .produce = {}};
  if (info.shape.rank == 2) e.shape.push_back(width);
  if (first.transposed) std::swap(e.shape[0], e.shape[1]);
  if (first.slabs > 0) e.shape.insert(e.shape.begin(), 1);
  e.produce = [read, fragments, width, dtype](const ByteSink& sink) {
    const Tensor t = read();
    switch (dtype) {
      case DType::f32:
        return produce_any<float>(t, fragments, width, sink);
      case DType::bf16:
        return produce_any<bf16>(t, fragments, width, sink);
      case DType::f16:
        return produce_any<f16>(t, fragments, width, sink);
      case DType::f64:
        return produce_any<double>(t, fragments, width, sink);
      default:
        throw Error(ErrorKind::usage, "save: weights are not written as {}; use f32, bf16, f16 or f64", name_of(dtype));
    }
  };
  return e;
}

namespace {

// The bytes of one matrix after the other.
struct Joined {
  std::vector<std::function<void(const ByteSink&)>> parts;
  void operator()(const ByteSink& sink) const {
    for (const auto& part : parts) part(sink);
  }
};

}  // namespace

void add_tensor(std::vector<TensorToWrite>& to, const Fragment& f, TensorToWrite tensor) {
  if (f.slab == 0) return to.push_back(std::move(tensor));
  const auto at = std::find_if(to.rbegin(), to.rend(), [&](const TensorToWrite& t) { return t.name == tensor.name; });
  TERN_CHECK(at != to.rend(), "save: '{}' begins with matrix {}", tensor.name, f.slab);
  at->shape[0] += tensor.shape[0];
  if (f.slab == 1) at->produce = Joined{{std::move(at->produce)}};
  at->produce.target<Joined>()->parts.push_back(std::move(tensor.produce));
}

void save_model(const ModelSpec& spec, const HfConfig& config, const ModelWeights& weights, DType dtype,
                const std::string& dir, Io& io, int64_t max_shard_bytes) {
  save_model(spec, config, weights, dtype, dir, io, ReadParameter(), max_shard_bytes);
}

void save_model(const ModelSpec& spec, const HfConfig& config, const ModelWeights& weights, DType dtype,
                const std::string& dir, Io& io, const ReadParameter& read, int64_t max_shard_bytes) {
  ModelWeights handles = weights;  // the visitor hands out places; storage is shared
  std::vector<TensorToWrite> entries;
  const auto add = [&](const ParameterInfo& info, Tensor& t, DType stored) {
    TERN_CHECK(!t.empty() || read, "save: '{}' was packed", info.name);
    const std::function<Tensor()> from = [&read, info, t] { return t.empty() ? read(info) : t; };
    for (const std::vector<Fragment>& fragments : fragments_by_tensor(info))
      add_tensor(entries, fragments.front(), dense_tensor(info, fragments, from, stored));
  };
  for_each_parameter(spec, handles, [&](const ParameterInfo& info, Tensor& t) { add(info, t, dtype); });
  for_each_fixed(spec, handles, [&](const ParameterInfo& info, Tensor& t) { add(info, t, wide_type(dtype)); });
  make_dirs(io, dir);
  write_model_weights(io, dir, entries, max_shard_bytes);
  HfConfig written = config;
  written.dtype = dtype;
  written.coded = false;
  write_file_atomically(io, join_path(dir, "config.json"), hf_config_json(written));
}

}  // namespace tern
