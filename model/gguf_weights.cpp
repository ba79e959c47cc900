#include "model/gguf_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"
#include "base/region_errors.h"
#include "formats/gguf/model.h"
#include "formats/hf/config.h"
#include "formats/safetensors/safetensors.h"
#include "kernels/cpu/coded_matmul.h"
#include "kernels/cpu/decode.h"
#include "model/coded_base.h"
#include "model/ops.h"
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

int64_t num_heads(const ModelSpec& spec, GgufPlace::Heads which) {
  const auto& a = first_attention(spec);
  return which == GgufPlace::Heads::queries ? a.heads : a.kv_heads;
}

// Where row r of GGUF's order stands in ours: 2j + s of a head is s·(d/2) + j.
int64_t our_row(int64_t r, int64_t head_dim) {
  const int64_t in_head = r % head_dim;
  return r - in_head + in_head % 2 * (head_dim / 2) + in_head / 2;
}

// One parameter's part in the file, with what it should look like.
struct Slot {
  const ParameterInfo* info;
  const Fragment* fragment;
  GgufPlace place;
  int64_t rows, width;
  int64_t head_dim = 0;  // of interleaved heads, else 0
  std::vector<int64_t> shape() const { return info->shape.rank == 2 ? std::vector{rows, width} : std::vector{rows}; }
};

Slot slot_of(const ModelSpec& spec, const ParameterInfo& info, const Fragment& f) {
  Slot s{.info = &info,
         .fragment = &f,
         .place = gguf_place(spec.family, f.name),
         .rows = f.row_end - f.row_begin,
         .width = info.shape.rank == 2 ? info.shape[1] : 1};
  if (s.place.interleaved != GgufPlace::Heads::plain) s.head_dim = s.rows / num_heads(spec, s.place.interleaved);
  return s;
}

// Whether somebody may choose the codes of a slot: matrices of the layers.
bool is_coded(const ModelSpec& spec, const Slot& s) {
  const auto& unit = spec.units[static_cast<size_t>(s.info->unit)].spec;
  return s.info->shape.rank == 2 && !std::holds_alternative<EmbedSpec>(unit) && !std::holds_alternative<HeadSpec>(unit);
}

// Vectors, and GPT-2's positions, are f32 whatever the types are, as llama.cpp's converter has it.
WeightType type_of(const ModelSpec& spec, const Slot& s, const GgufTypes& types) {
  if (s.info->shape.rank == 1 || s.place.name == "position_embd.weight") return WeightType::f32;
  return is_coded(spec, s) ? types.matrices : types.tables;
}

// GGUF's word for what most of a file is. Source: LlamaFileType of the gguf package 0.19.
uint32_t file_type_of(WeightType type) {
  switch (type) {
    case WeightType::f32:
      return 0;
    case WeightType::f16:
      return 1;
    case WeightType::q4_0:
      return 2;
    case WeightType::q4_1:
      return 3;
    case WeightType::q8_0:
      return 7;
    case WeightType::q5_0:
      return 8;
    case WeightType::q5_1:
      return 9;
    default:
      return 32;  // bf16
  }
}

// What is wrong with the tensor of a slot; "" if nothing is.
std::string judge(const Slot& s, const GgufTensor* t) {
  if (!t) return fmt::format("tensor '{}' of shape {} is missing", s.place.name, shape_text(s.shape()));
  // llama.cpp's converter has written vectors as matrices of one row.
  const std::vector<int64_t> shape = t->shape();
  if (shape != s.shape() && !(s.shape().size() == 1 && t->num_elements() == s.rows && t->sizes[0] == s.rows))
    return fmt::format("tensor '{}' has shape {}, the metadata imply {}", t->name, shape_text(shape),
                       shape_text(s.shape()));
  if (!t->type->weight)
    return fmt::format("tensor '{}' holds {}, which tern does not read; requantize it, or take the original", t->name,
                       t->type->name);
  return "";
}

bool is_tied_head(const ModelSpec& spec, std::string_view name) {
  return spec.head().tied && name == "output.weight";  // gguf_config has compared the two
}

template <class To>
void read_rows(const Slot& s, const GgufTensor& t, To* to) {
  // A vector is one row of the file.
  const int64_t rows = s.info->shape.rank == 2 ? s.rows : 1, width = s.info->shape.rank == 2 ? s.width : s.rows;
  const auto row_bytes = t.bytes.size() / static_cast<size_t>(rows);
  RegionErrors errors;
#pragma omp parallel if (rows * width > 1 << 16)
  {
    std::vector<float> row;
#pragma omp for
    for (int64_t r = 0; r < rows; ++r)
      errors.guard([&] {
        row.resize(static_cast<size_t>(width));
        decode_blocks(*t.type->weight, t.bytes.subspan(static_cast<size_t>(r) * row_bytes, row_bytes), row);
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

// The values of a slot in GGUF's order, row by row.
template <class From>
void produce_rows(const Slot& s, const From* from, const FloatSink& sink) {
  std::vector<float> row(static_cast<size_t>(s.width));
  for (int64_t r = 0; r < s.rows; ++r) {
    const From* at = from + (s.head_dim > 0 ? our_row(r, s.head_dim) : r) * s.width;
    for (int64_t k = 0; k < s.width; ++k) {
      if constexpr (std::is_same_v<From, bf16>)
        row[static_cast<size_t>(k)] = to_float(at[k]);
      else
        row[static_cast<size_t>(k)] = static_cast<float>(at[k]);
    }
    sink(row);
  }
}

// The same of rows that are blocks already.
void produce_coded_rows(const Slot& s, WeightType type, std::span<const std::byte> all, int64_t begin,
                        const ByteSink& sink) {
  const int64_t row_bytes = stored_bytes(type, 1, s.width);
  TERN_CHECK(static_cast<int64_t>(all.size()) >= (begin + s.rows) * row_bytes, "save_gguf: '{}' has {} coded bytes",
             s.info->name, all.size());
  for (int64_t r = 0; r < s.rows; ++r) {
    const int64_t row = begin + (s.head_dim > 0 ? our_row(r, s.head_dim) : r);
    sink(all.subspan(static_cast<size_t>(row * row_bytes), static_cast<size_t>(row_bytes)));
  }
}

}  // namespace

void read_gguf_parameter(const ModelSpec& spec, const Gguf& file, const ParameterInfo& info, const Tensor& t) {
  for (const Fragment& f : info.fragments) {
    const Slot slot = slot_of(spec, info, f);
    const GgufTensor& tensor = *file.find_tensor(slot.place.name);
    ops::by_dtype(t.dtype(),
                  [&]<class To>() { read_rows<To>(slot, tensor, t.span<To>().data() + f.row_begin * slot.width); });
    file.dont_need(tensor);
  }
}

WeightsCheck check_gguf_weights(const ModelSpec& spec, const Gguf& file) {
  WeightsCheck check;
  check.num_files = 1;
  check.num_tensors = static_cast<int64_t>(file.tensors().size());
  const auto problem = [&](const std::string& what) {
    check.problems.push_back(fmt::format("{}: {}", file.path(), what));
  };
  for (const GgufTensor& t : file.tensors()) {
    check.num_bytes += static_cast<int64_t>(t.bytes.size());
    ++check.dtypes[std::string(t.type->name)];
  }
  std::unordered_set<std::string_view> claimed;
  for (const ParameterInfo& info : parameters(spec))
    for (const Fragment& f : info.fragments) {
      const Slot slot = slot_of(spec, info, f);
      const GgufTensor* tensor = file.find_tensor(slot.place.name);
      if (tensor) claimed.insert(tensor->name);
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

bool stays_coded(const ModelSpec& spec, const Gguf& file, const ParameterInfo& info, DType dtype) {
  if (!multiplies_coded(dtype) || info.shape.rank != 2) return false;
  int64_t bytes = 0;
  for (const Fragment& f : info.fragments) {
    const Slot slot = slot_of(spec, info, f);
    const GgufTensor* tensor = file.find_tensor(slot.place.name);
    if (!judge(slot, tensor).empty() || slot.head_dim % 2 != 0) return false;
    bytes += static_cast<int64_t>(tensor->bytes.size());
  }
  return bytes < info.shape[0] * info.shape[1] * size_of(dtype);
}

CodedWeight coded_weight(const ModelSpec& spec, const std::shared_ptr<const Gguf>& file, const ParameterInfo& info,
                         Arena& arena) {
  CodedWeight coded;
  for (const Fragment& f : info.fragments) {
    const Slot slot = slot_of(spec, info, f);
    const GgufTensor& tensor = *file->find_tensor(slot.place.name);
    const auto bytes = static_cast<int64_t>(tensor.bytes.size());
    TERN_CHECK(bytes == stored_bytes(*tensor.type->weight, slot.rows, slot.width), "coded '{}': {} bytes", tensor.name,
               bytes);
    // Kernels only read it: the file is mapped for reading alone.
    Tensor t = arena.adopt(DType::u8, {bytes}, const_cast<std::byte*>(tensor.bytes.data()),
                           std::const_pointer_cast<Gguf>(file), MemoryClass::weights);
    coded.pieces.push_back({*tensor.type->weight, std::move(t), slot.rows, slot.head_dim});
  }
  return coded;
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

CodedBytes gguf_coded_bytes(const ModelSpec& spec, const Gguf& file, DType dtype) {
  CodedBytes bytes;
  for_each_codable(spec, [&](const ParameterInfo& info) {
    if (!stays_coded(spec, file, info, dtype)) return;
    for (const Fragment& f : info.fragments)
      bytes[info.name] += static_cast<int64_t>(file.find_tensor(slot_of(spec, info, f).place.name)->bytes.size());
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
    if (!stays_coded(spec, *file, info, dtype)) return;
    coded.emplace(info.name, coded_weight(spec, file, info, arena));
    for (const Fragment& f : info.fragments) used.push_back(file->find_tensor(slot_of(spec, info, f).place.name));
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
    for (const Fragment& f : info.fragments) used.push_back(file->find_tensor(slot_of(spec, info, f).place.name));
  });
  ModelWeights weights = weights_beside(
      spec, std::move(stored), dtype,
      [&](const ParameterInfo& info, Tensor& t) { read_gguf_parameter(spec, *file, info, t); }, arena);
  populate(*file, used);
  return weights;
}

std::optional<FileBand> gguf_rows(const ModelSpec& spec, const Gguf& file, const ParameterInfo& info,
                                  const Fragment& f) {
  const Slot slot = slot_of(spec, info, f);
  const GgufTensor* tensor = file.find_tensor(slot.place.name);
  if (info.shape.rank != 2 || !judge(slot, tensor).empty() || slot.head_dim % 2 != 0) return {};
  return FileBand{slot.rows,
                  {0, file.offset_of(*tensor), static_cast<int64_t>(tensor->bytes.size())},
                  *tensor->type->weight,
                  slot.head_dim};
}

ModelWeights load_gguf_beside(const ModelSpec& spec, const Gguf& file, DType dtype, GivenWeights given, Arena& arena) {
  const WeightsCheck check = check_gguf_weights(spec, file);  // before anything is allocated
  if (!check.problems.empty()) throw Error(ErrorKind::bad_file, "{}", check.problems.front());
  ModelWeights weights = empty_weights(spec);
  for_each_parameter(spec, weights, [&](const ParameterInfo& info, Tensor& t) {
    if (is_given(given, weights, info, t, dtype, arena)) return;
    t = arena.allocate(dtype, info.shape, MemoryClass::weights);
    read_gguf_parameter(spec, file, info, t);
  });
  put_given(spec, std::move(given), weights);
  pack_weights(spec, weights, arena);
  return weights;
}

GgufSaved save_gguf(const ModelSpec& spec, const HfConfig& config, const ReadParameter& read, const GgufTypes& types,
                    GgufMetadata metadata, const std::string& path, Io& io, const CodeParameter& code) {
  metadata.add("general.file_type", file_type_of(types.matrices));
  metadata.add("general.quantization_version", uint32_t{2});

  GgufSaved saved;
  const std::vector<ParameterInfo> infos = parameters(spec);  // slots point into it
  std::vector<GgufTensorToWrite> tensors;
  for (const ParameterInfo& info : infos)
    for (const Fragment& f : info.fragments) {
      const Slot slot = slot_of(spec, info, f);
      WeightType as = type_of(spec, slot, types);
      if (!fills_blocks(as, slot.width)) {
        as = WeightType::f16;
        ++saved.as_f16;
      }
      const auto floats = [&read, slot, begin = f.row_begin](const FloatSink& sink) {
        const Tensor t = read(*slot.info);
        TERN_CHECK(!t.empty(), "save_gguf: '{}' was packed", slot.info->name);
        ops::by_dtype(t.dtype(), [&]<class From>() {
          produce_rows<From>(slot, t.span<From>().data() + begin * slot.width, sink);
        });
      };
      GgufTensorToWrite tensor{slot.place.name, as, slot.shape(), floats};
      if (code && as == types.matrices && is_coded(spec, slot))
        tensor.produce_coded = [&code, slot, as, begin = f.row_begin](const ByteSink& sink) {
          produce_coded_rows(slot, as, code(*slot.info, as), begin, sink);
        };
      tensors.push_back(std::move(tensor));
    }
  const std::vector<float> divisors = gguf_rope_divisors(config);
  if (!divisors.empty())
    tensors.push_back(
        {"rope_freqs.weight", WeightType::f32, {static_cast<int64_t>(divisors.size())}, [&](const FloatSink& sink) {
           sink(divisors);
         }});
  saved.file_bytes = write_gguf(io, path, metadata, tensors);
  return saved;
}

ReadParameter parameters_of(const ModelSpec& spec, const ModelWeights& weights) {
  std::unordered_map<std::string, Tensor> by_name;
  ModelWeights handles = weights;  // the visitor hands out places; storage is shared
  for_each_parameter(spec, handles, [&](const ParameterInfo& info, Tensor& t) { by_name.emplace(info.name, t); });
  return [by_name = std::move(by_name)](const ParameterInfo& info) { return by_name.at(info.name); };
}

}  // namespace tern
