#include "model/check_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <unordered_set>

#include "base/error.h"
#include "formats/gguf/model.h"
#include "model/allocate_weights.h"
#include "model/coded_tensors.h"
#include "model/fragment.h"
#include "model/gguf_weights.h"
#include "model/hf_quantized.h"
#include "model/names.h"
#include "model/visit_weights.h"
#include "model/weights_file.h"

namespace tern {
namespace {

bool is_weight_type(const TensorView& view) {
  return view.dtype && (*view.dtype == DType::f32 || *view.dtype == DType::bf16 || *view.dtype == DType::f16 ||
                        *view.dtype == DType::f64);
}

}  // namespace

std::optional<TensorView> find_parameter(const ModelSpec& spec, const Weights& file, const std::string& name) {
  if (auto found = file.find(name)) return found;
  const std::string_view prefix = base_prefix(spec);
  if (!prefix.empty() && name.starts_with(prefix))
    if (auto found = file.find(std::string_view(name).substr(prefix.size()))) return found;
  // BERT's first files call a norm's weight gamma and its bias beta.
  for (const auto& [now, then] :
       {std::pair("LayerNorm.weight", "LayerNorm.gamma"), {"LayerNorm.bias", "LayerNorm.beta"}})
    if (name.ends_with(now))
      return find_parameter(spec, file, name.substr(0, name.size() - std::string_view(now).size()) + then);
  return {};
}

std::vector<int64_t> fragment_shape(const ParameterInfo& info, const Fragment& fragment) {
  std::vector<int64_t> shape{fragment.file_rows};
  if (info.shape.rank == 2) shape.push_back(info.shape[1]);
  if (fragment.transposed) std::swap(shape[0], shape[1]);
  if (fragment.slabs > 0) shape.insert(shape.begin(), fragment.slabs);
  return shape;
}

std::optional<std::string> judge_tied_head(const ModelSpec& spec, const Weights& file) {
  const auto head = file.find(kTiedHead);
  if (!spec.head().tied || !head) return {};
  const auto table =
      find_parameter(spec, file, file_names(spec, -1, &HfNames::tokens, "weight", spec.vocab).front().name);
  if (!table) return "";  // its absence is told by itself
  if (head->dtype_name == table->dtype_name && head->bytes.size() == table->bytes.size() &&
      std::memcmp(head->bytes.data(), table->bytes.data(), table->bytes.size()) == 0)
    return "";
  return fmt::format(
      "'{}' differs from '{}', config.json says they are tied; set tie_word_embeddings to false if the head is its own",
      kTiedHead, table->name);
}

namespace {

struct WeightsJudge {
  const ModelSpec& spec;
  const std::string& path;
  const Weights& file;
  WeightsCheck& check;
  std::optional<HfPacking> packing;
  std::unordered_set<std::string> claimed;  // tensors of the file that belong to something

  void problem(const std::string& what) { check.problems.push_back(fmt::format("{}: {}", path, what)); }
  void fragment(const ParameterInfo& info, const Fragment& f);
  bool hf_quantized(const ParameterInfo& info, const Fragment& f);
};

// The type that the matrix takes stands for those of its tensors.
bool WeightsJudge::hf_quantized(const ParameterInfo& info, const Fragment& f) {
  if (info.shape.rank != 2) return false;
  const auto matrix = find_hf_quantized(spec, file, packing, f, info.shape[1]);
  if (!matrix) return false;
  if (!claimed.emplace(matrix->tensors.front()).second) return true;
  const auto type = exact_type(*matrix);
  ++check.dtypes[type ? std::string(name_of(*type)) : "packed, read as numbers"];
  for (const std::string& tensor : matrix->tensors) {
    claimed.emplace(tensor);
    const auto counted = check.dtypes.find(std::string(file.get(tensor).dtype_name));
    if (counted != check.dtypes.end() && --counted->second == 0) check.dtypes.erase(counted);
  }
  return true;
}

void WeightsJudge::fragment(const ParameterInfo& info, const Fragment& f) {
  if (claimed.contains(f.name)) return;  // other rows of a tensor that was judged
  try {
    if (hf_quantized(info, f)) return;
    if (const auto coded = find_coded(spec, file, info, f)) {
      if (claimed.emplace(coded->rows.name).second) {
        ++check.dtypes[std::string(name_of(coded->type))];
        if (--check.dtypes["U8"] == 0) check.dtypes.erase("U8");
      }
      if (coded->tables) claimed.emplace(coded->tables_name);
      return;
    }
  } catch (const Error& e) {
    check.problems.emplace_back(e.what());
    return;
  }
  const auto view = find_parameter(spec, file, f.name);
  const std::vector<int64_t> want = fragment_shape(info, f);
  if (!view) {
    problem(fmt::format("tensor '{}' of shape {} is missing", f.name, shape_text(want)));
    return;
  }
  claimed.emplace(view->name);
  if (!std::ranges::equal(view->shape, want))
    problem(fmt::format("tensor '{}' has shape {}, config.json implies {}", view->name, shape_text(view->shape),
                        shape_text(want)));
  if (!is_weight_type(*view))
    problem(fmt::format("tensor '{}' holds {}, expected F32, BF16, F16 or F64", view->name, view->dtype_name));
}

}  // namespace

WeightsCheck check_weights(const ModelSpec& spec, const std::string& path) {
  if (is_gguf_path(path)) return check_gguf_weights(spec, Gguf(path));
  WeightsCheck check;
  Weights file;
  try {
    file = Weights(path);
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::bad_file) throw;
    check.problems.emplace_back(e.what());
    return check;
  }
  check.num_files = static_cast<int64_t>(file.files().size());
  check.num_tensors = static_cast<int64_t>(file.size());
  check.num_bytes = file.data_bytes();
  for (size_t i = 0; i < file.size(); ++i) ++check.dtypes[std::string(file[i].dtype_name)];

  WeightsJudge judge{spec, path, file, check, hf_packing_beside(path), {}};
  std::vector<ParameterInfo> infos = parameters(spec);
  ModelWeights none = empty_weights(spec);
  for_each_fixed(spec, none, [&](const ParameterInfo& info, Tensor&) { infos.push_back(info); });
  for (const ParameterInfo& info : infos)
    for (const Fragment& f : info.fragments) judge.fragment(info, f);
  if (const auto head = judge_tied_head(spec, file)) {
    judge.claimed.emplace(kTiedHead);
    if (!head->empty()) judge.problem(*head);
  }
  for (size_t i = 0; i < file.size(); ++i) {
    if (judge.claimed.contains(std::string(file[i].name)) || is_harmless_buffer(file[i].name) ||
        is_idle_bias(file, file[i].name))
      continue;
    if (is_skipped_layer(spec, file[i].name) || is_beside_encoder(spec, file[i].name)) {
      ++check.num_passed_over;
    } else {
      judge.problem(fmt::format("tensor '{}' {} belongs to no parameter of this {} model with {} layers", file[i].name,
                                shape_text(file[i].shape), spec.family, spec.layers));
    }
  }
  return check;
}

}  // namespace tern
