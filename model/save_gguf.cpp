#include "model/save_gguf.h"

#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "formats/gguf/model.h"
#include "formats/gguf/rope.h"
#include "formats/gguf/round_blocks.h"
#include "formats/hf/config.h"
#include "model/coded_matrix.h"
#include "model/gguf_slots.h"
#include "model/ops.h"
#include "model/visit_weights.h"

namespace tern {
namespace {

// Vectors, routers, and GPT-2's positions, are f32 whatever the types are, as llama.cpp's converter has it.
WeightType type_of(const ModelSpec& spec, const GgufSlot& s, const GgufTypes& types) {
  if (s.shape().size() == 1 || s.place.name == "position_embd.weight") return WeightType::f32;
  if (has_codes(spec, *s.info)) return types.matrices;
  return is_token_table(spec, *s.info) ? types.tables : WeightType::f32;
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
    case WeightType::q4_k:
      return 14;  // "small": no matrix has more bits
    case WeightType::q5_k:
      return 16;
    case WeightType::q6_k:
      return 18;
    default:
      return 32;  // bf16
  }
}

// The values of a slot in GGUF's order, row by row.
template <class From>
void produce_rows(const GgufSlot& s, const From* from, const FloatSink& sink) {
  std::vector<float> row(static_cast<size_t>(s.width));
  for (int64_t r = 0; r < s.rows; ++r) {
    const From* at = from + (s.head_dim > 0 ? our_row(r, s.head_dim) : r) * s.width;
    for (int64_t k = 0; k < s.width; ++k) {
      float x;
      if constexpr (std::is_same_v<From, bf16>)
        x = to_float(at[k]);
      else
        x = static_cast<float>(at[k]);
      row[static_cast<size_t>(k)] = s.place.plus_one ? x + 1 : x;
    }
    sink(row);
  }
}

// The same of rows that are blocks already.
void produce_coded_rows(const GgufSlot& s, WeightType type, std::span<const std::byte> all, const ByteSink& sink) {
  const int64_t row_bytes = stored_bytes(type, 1, s.width);
  TERN_CHECK(static_cast<int64_t>(all.size()) >= (s.row_begin + s.rows) * row_bytes,
             "save_gguf: '{}' has {} coded bytes", s.info->name, all.size());
  for (int64_t r = 0; r < s.rows; ++r) {
    const int64_t row = s.row_begin + (s.head_dim > 0 ? our_row(r, s.head_dim) : r);
    sink(all.subspan(static_cast<size_t>(row * row_bytes), static_cast<size_t>(row_bytes)));
  }
}

// The parts that stand in one tensor, in its order; tensors in the order of their first parts.
std::vector<std::vector<GgufSlot>> slots_by_tensor(const ModelSpec& spec, const std::vector<ParameterInfo>& infos) {
  std::vector<std::vector<GgufSlot>> tensors;
  std::unordered_map<std::string, size_t> stacks;  // of experts
  for (const ParameterInfo& info : infos)
    for (GgufSlot& slot : gguf_slots(spec, info)) {
      if (slot.experts > 0)
        if (const auto [at, is_new] = stacks.emplace(slot.place.name, tensors.size()); !is_new) {
          tensors[at->second].push_back(std::move(slot));
          continue;
        }
      tensors.push_back({std::move(slot)});
    }
  return tensors;
}

}  // namespace

GgufSaved save_gguf(const ModelSpec& spec, const HfConfig& config, const ReadParameter& read, const GgufTypes& types,
                    GgufMetadata metadata, const std::string& path, Io& io, const CodeParameter& code) {
  metadata.add("general.file_type", file_type_of(types.matrices));
  metadata.add("general.quantization_version", uint32_t{2});

  GgufSaved saved;
  const std::vector<ParameterInfo> infos = parameters(spec);  // slots point into it
  std::vector<GgufTensorToWrite> tensors;
  for (const std::vector<GgufSlot>& parts : slots_by_tensor(spec, infos)) {
    const GgufSlot& first = parts.front();
    WeightType as = type_of(spec, first, types);
    const int64_t width = first.shape().back();
    if (!fills_blocks(as, width)) {
      as = WeightType::f16;
      ++saved.as_f16;
    }
    const auto floats = [&read, parts](const FloatSink& sink) {
      for (const GgufSlot& slot : parts) {
        const Tensor t = read(*slot.info);
        TERN_CHECK(!t.empty(), "save_gguf: '{}' was packed", slot.info->name);
        ops::by_dtype(t.dtype(), [&]<class From>() {
          produce_rows<From>(slot, t.span<From>().data() + slot.row_begin * slot.width, sink);
        });
      }
    };
    GgufTensorToWrite tensor{first.place.name, as, first.shape(), floats};
    const bool of_layer = as == types.matrices && has_codes(spec, *first.info);
    if (code && (of_layer || !rounds_to(as)))
      tensor.produce_coded = [&code, parts, as](const ByteSink& sink) {
        for (const GgufSlot& slot : parts) produce_coded_rows(slot, as, code(*slot.info, as), sink);
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

}  // namespace tern
