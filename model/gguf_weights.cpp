#include "model/gguf_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"
#include "base/region_errors.h"
#include "base/weight_type.h"
#include "formats/gguf/model.h"
#include "formats/gguf/places.h"
#include "formats/gguf/rope.h"
#include "formats/hf/config.h"
#include "formats/safetensors/safetensors.h"
#include "kernels/cpu/decode.h"
#include "model/allocate_weights.h"
#include "model/coded_base.h"
#include "model/coded_matrix.h"
#include "model/gguf_slots.h"
#include "model/ops.h"
#include "model/pack_weights.h"
#include "model/visit_weights.h"
#include "model/weights_file.h"

namespace tern {
namespace {

template <class To>
To number(float x) {
  if constexpr (std::is_same_v<To, bf16>)
    return to_bf16(x);
  else
    return static_cast<To>(x);
}

bool is_tied_head(const ModelSpec& spec, std::string_view name) {
  return spec.head().tied && name == "output.weight";  // gguf_config has compared the two
}

// Its rows to the place of the slot's first row. Norms of 1 + w become w: in f32 exactly where they are at least a half.
template <class To>
void read_rows(const GgufSlot& s, const GgufTensor& t, To* to) {
  // A vector is one row of the file.
  const int64_t rows = s.info->shape.rank == 2 ? s.rows : 1, width = s.info->shape.rank == 2 ? s.width : s.rows;
  const std::span<const std::byte> bytes = bytes_of(s, t);
  const auto row_bytes = bytes.size() / static_cast<size_t>(rows);
  RegionErrors errors;
#pragma omp parallel if (rows * width > 1 << 16)
  {
    std::vector<float> row;
#pragma omp for
    for (int64_t r = 0; r < rows; ++r)
      errors.guard([&] {
        row.resize(static_cast<size_t>(width));
        decode_blocks(*t.type->weight, bytes.subspan(static_cast<size_t>(r) * row_bytes, row_bytes), row);
        if (s.place.plus_one)
          for (float& x : row) x -= 1;
        if (rows == 1) {
          for (int64_t k = 0; k < width; ++k)
            to[s.head_dim > 0 ? our_row(k, s.head_dim) : k] = number<To>(row[static_cast<size_t>(k)]);
        } else {
          To* out = to + (s.head_dim > 0 ? our_row(r, s.head_dim) : r) * width;
          for (int64_t k = 0; k < width; ++k) out[k] = number<To>(row[static_cast<size_t>(k)]);
        }
      });
  }
  errors.rethrow();
}

}  // namespace

void read_gguf_parameter(const ModelSpec& spec, const Gguf& file, const ParameterInfo& info, const Tensor& t) {
  for (const GgufSlot& slot : gguf_slots(spec, info)) {
    const GgufTensor& tensor = *file.find_tensor(slot.place.name);
    ops::by_dtype(t.dtype(),
                  [&]<class To>() { read_rows<To>(slot, tensor, t.span<To>().data() + slot.row_begin * slot.width); });
    if (slot.experts == 0 || slot.place.expert + 1 == slot.experts) file.dont_need(tensor);
  }
}

WeightsCheck check_gguf_weights(const ModelSpec& spec, const Gguf& file) {
  WeightsCheck check;
  check.num_files = std::ssize(file.paths());
  check.num_tensors = static_cast<int64_t>(file.tensors().size());
  const auto problem = [&](const std::string& what) {
    check.problems.push_back(fmt::format("{}: {}", file.path(), what));
  };
  for (const GgufTensor& t : file.tensors()) {
    check.num_bytes += static_cast<int64_t>(t.bytes.size());
    ++check.dtypes[std::string(t.type->name)];
  }
  std::unordered_set<std::string_view> claimed;
  const std::vector<ParameterInfo> infos = parameters(spec);  // slots point into it
  for (const ParameterInfo& info : infos)
    for (const GgufSlot& slot : gguf_slots(spec, info)) {
      const GgufTensor* tensor = file.find_tensor(slot.place.name);
      if (tensor) claimed.insert(tensor->name);
      if (slot.place.expert > 0) continue;  // as its first expert
      if (const std::string wrong = judge(slot, tensor); !wrong.empty()) problem(wrong);
    }
  for (const GgufTensor& t : file.tensors())
    if (!claimed.contains(t.name) && !is_gguf_rope_table(t.name) && !is_tied_head(spec, t.name))
      problem(fmt::format("tensor '{}' {} belongs to no parameter of this {} model with {} layers", t.name,
                          shape_text(t.shape()), spec.family, spec.layers));
  return check;
}

ModelWeights load_gguf_weights(const ModelSpec& spec, const Gguf& file, DType dtype, Arena& arena,
                               const std::vector<bool>& elsewhere) {
  const WeightsCheck check = check_gguf_weights(spec, file);  // before anything is allocated
  if (!check.problems.empty()) throw Error(ErrorKind::bad_file, "{}", check.problems.front());
  ModelWeights weights = allocate_weights(spec, dtype, MemoryClass::weights, arena, elsewhere);
  for_each_parameter(spec, weights, [&](const ParameterInfo& info, Tensor& t) {
    if (!t.empty()) read_gguf_parameter(spec, file, info, t);
  });
  return weights;
}

namespace {

bool stays_coded(const ModelSpec& spec, const Gguf& file, const ParameterInfo& info, DType dtype, bool in_integers) {
  if (info.shape.rank != 2) return false;
  int64_t bytes = 0;
  for (const GgufSlot& slot : gguf_slots(spec, info)) {
    const GgufTensor* tensor = file.find_tensor(slot.place.name);
    if (!judge(slot, tensor).empty() || slot.head_dim % 2 != 0) return false;
    if (!multiplies_as_coded(*tensor->type->weight, info.shape[1], dtype, in_integers)) return false;
    bytes += static_cast<int64_t>(bytes_of(slot, *tensor).size());
  }
  return bytes < info.shape[0] * info.shape[1] * size_of(dtype);
}

CodedWeight coded_weight(const ModelSpec& spec, const std::shared_ptr<const Gguf>& file, const ParameterInfo& info,
                         Arena& arena) {
  CodedWeight coded;
  for (const GgufSlot& slot : gguf_slots(spec, info)) {
    const GgufTensor& tensor = *file->find_tensor(slot.place.name);
    const std::span<const std::byte> rows = bytes_of(slot, tensor);
    const auto bytes = static_cast<int64_t>(rows.size());
    TERN_CHECK(bytes == stored_bytes(*tensor.type->weight, slot.rows, slot.width), "coded '{}': {} bytes", tensor.name,
               bytes);
    // Kernels only read it: the file is mapped for reading alone.
    Tensor t = arena.adopt(DType::u8, {bytes}, const_cast<std::byte*>(rows.data()), std::const_pointer_cast<Gguf>(file),
                           MemoryClass::weights);
    coded.pieces.push_back({*tensor.type->weight, std::move(t), slot.rows, slot.head_dim});
  }
  return coded;
}

void add_used(const ModelSpec& spec, const Gguf& file, const ParameterInfo& info, std::vector<const GgufTensor*>& to) {
  for (const GgufSlot& slot : gguf_slots(spec, info))
    if (slot.place.expert <= 0) to.push_back(file.find_tensor(slot.place.name));  // all experts by the first
}

// By all threads: maps the pages of what is used where it lies.
void populate(const Gguf& file, const std::vector<const GgufTensor*>& tensors) {
#pragma omp parallel for schedule(dynamic, 1)
  for (size_t i = 0; i < tensors.size(); ++i) file.populate(*tensors[i]);
}

}  // namespace

void for_each_codable(const ModelSpec& spec, const std::function<void(const ParameterInfo&)>& visit) {
  ModelWeights shapes = empty_weights(spec);
  visit(parameters(spec).front());
  for_each_linear(spec, shapes, [&](const ParameterInfo& info, const Linear& linear) {
    if (!spec.head().tied || &linear != &head_of(shapes).projection) visit(info);
  });
}

CodedBytes gguf_coded_bytes(const ModelSpec& spec, const Gguf& file, DType dtype, bool in_integers) {
  CodedBytes bytes;
  for_each_codable(spec, [&](const ParameterInfo& info) {
    if (!stays_coded(spec, file, info, dtype, in_integers)) return;
    for (const GgufSlot& slot : gguf_slots(spec, info))
      bytes[info.name] += static_cast<int64_t>(bytes_of(slot, *file.find_tensor(slot.place.name)).size());
  });
  return bytes;
}

ModelWeights load_gguf_as_coded(const ModelSpec& spec, std::shared_ptr<const Gguf> file, DType dtype, Arena& arena,
                                bool in_integers) {
  const WeightsCheck check = check_gguf_weights(spec, *file);  // before anything is allocated
  if (!check.problems.empty()) throw Error(ErrorKind::bad_file, "{}", check.problems.front());
  std::unordered_map<std::string, CodedWeight> coded;
  std::vector<const GgufTensor*> used;
  for_each_codable(spec, [&](const ParameterInfo& info) {
    if (!stays_coded(spec, *file, info, dtype, in_integers)) return;
    coded.emplace(info.name, coded_weight(spec, file, info, arena));
    add_used(spec, *file, info, used);
  });
  ModelWeights weights = empty_weights(spec);
  for_each_parameter(spec, weights, [&](const ParameterInfo& info, Tensor& t) {
    const auto form = coded.find(info.name);
    if (form == coded.end()) {
      t = arena.allocate(dtype, info.shape, MemoryClass::weights);
      read_gguf_parameter(spec, *file, info, t);
    } else if (&t == &embed_of(weights).tokens) {
      t = arena.allocate(dtype, {0, info.shape[1]}, MemoryClass::weights);  // tells the type to compute in
      embed_of(weights).coded_tokens = form->second;
    }
  });
  share_storage(spec, weights);
  for_each_linear(spec, weights, [&](const ParameterInfo& info, Linear& linear) {
    if (const auto form = coded.find(info.name); form != coded.end()) linear.weight = form->second;
  });
  if (in_integers) multiply_in_integers(spec, file->path(), weights);
  populate(*file, used);
  pack_weights(spec, weights, arena);
  return weights;
}

ModelWeights load_gguf_stored(const ModelSpec& spec, std::shared_ptr<const Gguf> file, DType dtype, Arena& arena) {
  const WeightsCheck check = check_gguf_weights(spec, *file);  // before anything is allocated
  if (!check.problems.empty()) throw Error(ErrorKind::bad_file, "{}", check.problems.front());
  StoredWeights stored;
  std::vector<const GgufTensor*> used;
  for_each_stored(spec, [&](const ParameterInfo& info) {
    stored.emplace(info.name, coded_weight(spec, file, info, arena));
    add_used(spec, *file, info, used);
  });
  ModelWeights weights = weights_beside(
      spec, std::move(stored), dtype,
      [&](const ParameterInfo& info, Tensor& t) { read_gguf_parameter(spec, *file, info, t); }, arena);
  populate(*file, used);
  return weights;
}

std::vector<FileBand> gguf_rows(const ModelSpec& spec, const Gguf& file, const ParameterInfo& info) {
  std::vector<FileBand> bands;
  for (const GgufSlot& slot : gguf_slots(spec, info)) {
    const GgufTensor* tensor = file.find_tensor(slot.place.name);
    if (info.shape.rank != 2 || !judge(slot, tensor).empty() || slot.head_dim % 2 != 0) return {};
    const std::span<const std::byte> rows = bytes_of(slot, *tensor);
    bands.push_back({slot.rows,
                     {file.file_of(*tensor), file.offset_of(*tensor) + (rows.data() - tensor->bytes.data()),
                      static_cast<int64_t>(rows.size())},
                     *tensor->type->weight,
                     slot.head_dim});
  }
  return bands;
}

ModelWeights load_gguf_beside(const ModelSpec& spec, std::shared_ptr<const Gguf> file, DType dtype, GivenWeights given,
                              Arena& arena) {
  const WeightsCheck check = check_gguf_weights(spec, *file);  // before anything is allocated
  if (!check.problems.empty()) throw Error(ErrorKind::bad_file, "{}", check.problems.front());
  std::vector<const GgufTensor*> used;
  if (given.in_integers)
    add_coded(
        spec,
        [&](const ParameterInfo& info) -> std::optional<CodedWeight> {
          if (!stays_coded(spec, *file, info, dtype, true)) return {};
          add_used(spec, *file, info, used);
          return coded_weight(spec, file, info, arena);
        },
        given);
  ModelWeights weights = empty_weights(spec);
  for_each_parameter(spec, weights, [&](const ParameterInfo& info, Tensor& t) {
    if (is_given(given, weights, info, t, dtype, arena)) return;
    t = arena.allocate(dtype, info.shape, MemoryClass::weights);
    read_gguf_parameter(spec, *file, info, t);
  });
  populate(*file, used);
  put_given(spec, std::move(given), weights);
  pack_weights(spec, weights, arena);
  return weights;
}

}  // namespace tern
