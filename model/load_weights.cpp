#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <unordered_map>

#include "base/error.h"
#include "base/wide_type.h"
#include "formats/gguf/model.h"
#include "kernels/cpu/code_groups.h"
#include "kernels/cpu/coded_int8.h"
#include "kernels/cpu/coded_matmul.h"
#include "kernels/cpu/matmul.h"
#include "model/allocate_weights.h"
#include "model/coded_base.h"
#include "model/file_bands.h"
#include "model/fragment.h"
#include "model/gguf_weights.h"
#include "model/given_weights.h"
#include "model/model_files.h"
#include "model/ops.h"
#include "model/pack_weights.h"
#include "model/visit_weights.h"
#include "model/weights_loader.h"

namespace tern {
namespace {

void load_fixed(const ModelSpec& spec, WeightsLoader& loader, DType dtype, ModelWeights& weights, Arena& arena) {
  for_each_fixed(spec, weights, [&](const ParameterInfo& info, Tensor& t) {
    t = arena.allocate(wide_type(dtype), info.shape, MemoryClass::weights);
    loader.load(info, t);
  });
}

ModelWeights load_stored(const ModelSpec& spec, WeightsLoader& loader, DType dtype, Arena& arena) {
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
  WeightsLoader loader(spec, weights_file(model_dir));
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
  WeightsLoader loader(spec, path);
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
  return coded_bytes(spec, model_dir, dtype, WeightsIn::coded_file);
}

CodedBytes coded_bytes(const ModelSpec& spec, const std::string& model_dir, DType dtype, WeightsIn in) {
  if (is_gguf_path(model_dir)) return gguf_coded_bytes(spec, Gguf(model_dir), dtype, in == WeightsIn::coded_int8);
  const WeightsLoader loader(spec, weights_file(model_dir), in);
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
      any = any || find_hf_quantized(spec, file, packing, f, info.shape[1]) || find_coded(spec, file, info, f);
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
  if (is_gguf_path(model_dir))
    return load_gguf_beside(spec, std::make_shared<const Gguf>(model_dir), dtype, std::move(given), arena);
  WeightsLoader loader(spec, weights_file(model_dir),
                       given.in_integers ? WeightsIn::coded_int8 : WeightsIn::mapped_file);
  ModelWeights weights = empty_weights(spec);
  if (given.in_integers)
    add_coded(
        spec, [&](const ParameterInfo& info) { return loader.stay_coded(info, dtype, arena); }, given);
  for_each_parameter(spec, weights, [&](const ParameterInfo& info, Tensor& t) {
    if (is_given(given, weights, info, t, dtype, arena)) return loader.claim(info);
    t = arena.allocate(dtype, info.shape, MemoryClass::weights);
    loader.load(info, t);
  });
  load_fixed(spec, loader, dtype, weights, arena);
  loader.check_tied_head();
  loader.check_all_claimed();
  loader.finish();
  put_given(spec, std::move(given), weights);
  pack_weights(spec, weights, arena);
  return weights;
}

bool multiplies_as_coded(WeightType type, int64_t columns, DType dtype, bool in_integers) {
  return multiplies_coded(dtype) || (in_integers && dtype != DType::f64 && multiplies_in_integers(type, columns));
}

bool multiplies_in_integers(WeightType type, int64_t columns) {
  return columns <= kInt8Columns && has_code_groups(type);
}

bool mark_integers(const ModelSpec& spec, ModelWeights& weights) {
  bool any = false;
  for_each_linear(spec, weights, [&](const ParameterInfo&, Linear& linear) {
    auto* coded = std::get_if<CodedWeight>(&linear.weight);
    if (!coded) return;
    coded->in_integers = std::ranges::all_of(
        coded->pieces, [&](const CodedPiece& p) { return multiplies_in_integers(p.type, linear.in); });
    any |= coded->in_integers;
  });
  return any;
}

void multiply_in_integers(const ModelSpec& spec, const std::string& path, ModelWeights& weights) {
  if (mark_integers(spec, weights)) return;
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
  WeightsLoader loader(spec, weights_file(model_dir), packs ? WeightsIn::mapped_file : in);
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

}  // namespace tern
