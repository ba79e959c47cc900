// The format's table of tensor types. Source: GGML_QUANT_SIZES of the gguf package 0.19.
#include "formats/gguf/gguf.h"

namespace tern {
namespace {

// Types whose numbers nobody here reads. All others are rows of base/weight_types.def.
constexpr GgufTypeRow kListedOnly[] = {
    {9, "Q8_1", 32, 40, {}},    {15, "Q8_K", 256, 292, {}}, {19, "IQ1_S", 256, 50, {}}, {24, "I8", 1, 1, {}},
    {25, "I16", 1, 2, {}},      {26, "I32", 1, 4, {}},      {27, "I64", 1, 8, {}},      {28, "F64", 1, 8, {}},
    {29, "IQ1_M", 256, 56, {}}, {34, "TQ1_0", 256, 54, {}}, {35, "TQ2_0", 256, 66, {}}, {40, "NVFP4", 64, 36, {}},
    {41, "Q1_0", 128, 18, {}},
};

constexpr GgufTypeRow kWeights[] = {
#define TERN_WEIGHT_TYPE(type, name, id, elements, bytes, ...) {id, name, elements, bytes, WeightType::type},
#include "base/weight_types.def"
#undef TERN_WEIGHT_TYPE
};

}  // namespace

const GgufTypeRow* gguf_type_row(uint32_t id) {
  if (id == kNotInGguf) return nullptr;
  for (const GgufTypeRow& row : kWeights)
    if (row.id == id) return &row;
  for (const GgufTypeRow& row : kListedOnly)
    if (row.id == id) return &row;
  return nullptr;
}

std::string_view name_of(GgufValueType type) {
  static constexpr std::string_view kNames[] = {"u8",      "i8",     "u16",   "i16", "u32", "i32", "f32",
                                                "boolean", "string", "array", "u64", "i64", "f64"};
  return static_cast<size_t>(type) < std::size(kNames) ? kNames[static_cast<size_t>(type)] : "unknown";
}

}  // namespace tern
