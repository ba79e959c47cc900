#include "model/gguf_slots.h"

#include <fmt/format.h>

#include "base/error.h"
#include "formats/gguf/places.h"
#include "formats/safetensors/safetensors.h"
#include "model/fragment.h"
#include "model/visit_weights.h"
#include "model/weights_file.h"

namespace tern {

namespace {

int64_t num_heads(const ModelSpec& spec, GgufPlace::Heads which) {
  const auto& a = first_attention(spec);
  return which == GgufPlace::Heads::queries ? a.heads : a.kv_heads;
}

int64_t num_experts(const ModelSpec& spec, const ParameterInfo& info) {
  const MoeSpec* moe = moe_of(spec.units[static_cast<size_t>(info.unit)]);
  TERN_CHECK(moe, "'{}' of an expert, in a unit without", info.name);
  return moe->experts;
}

}  // namespace

std::vector<int64_t> GgufSlot::shape() const {
  if (experts > 0) return info->shape.rank == 2 ? std::vector{experts, rows, width} : std::vector{experts, rows};
  if (info->shape.rank == 2 && rows == 1) return {width};
  return info->shape.rank == 2 ? std::vector{rows, width} : std::vector{rows};
}

std::vector<GgufSlot> gguf_slots(const ModelSpec& spec, const ParameterInfo& info) {
  std::vector<GgufSlot> slots;
  for (const Fragment& f : info.fragments) {
    GgufSlot s{.info = &info,
               .place = f.slabs > 0 ? gguf_place_of_expert(spec.family, f.name, f.slab, f.file_row)
                                    : gguf_place(spec.family, f.name),
               .row_begin = f.row_begin,
               .rows = f.row_end - f.row_begin,
               .width = info.shape.rank == 2 ? info.shape[1] : 1};
    if (s.place.sorted) {
      s.row_begin = 0, s.rows = info.shape[0];
      return {s};
    }
    if (s.place.interleaved != GgufPlace::Heads::plain) s.head_dim = s.rows / num_heads(spec, s.place.interleaved);
    if (s.place.expert >= 0) s.experts = num_experts(spec, info);
    slots.push_back(std::move(s));
  }
  return slots;
}

std::string judge(const GgufSlot& s, const GgufTensor* t) {
  const std::vector<int64_t> want = s.shape();
  if (!t) return fmt::format("tensor '{}' of shape {} is missing", s.place.name, shape_text(want));
  // llama.cpp's converter has written vectors as matrices of one row.
  const std::vector<int64_t> shape = t->shape();
  if (shape != want && !(want.size() == 1 && t->num_elements() == want[0] && t->sizes[0] == want[0]))
    return fmt::format("tensor '{}' has shape {}, the metadata imply {}", t->name, shape_text(shape), shape_text(want));
  if (!t->type->weight)
    return fmt::format("tensor '{}' holds {}, which tern does not read; requantize it, or take the original", t->name,
                       t->type->name);
  return "";
}

std::span<const std::byte> bytes_of(const GgufSlot& s, const GgufTensor& t) {
  if (s.experts == 0) return t.bytes;
  const size_t bytes = t.bytes.size() / static_cast<size_t>(s.experts);
  return t.bytes.subspan(static_cast<size_t>(s.place.expert) * bytes, bytes);
}

int64_t our_row(int64_t r, int64_t head_dim) {
  const int64_t in_head = r % head_dim;
  return r - in_head + in_head % 2 * (head_dim / 2) + in_head / 2;
}

}  // namespace tern
