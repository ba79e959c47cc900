// The format's table of tensor types. Source: GGML_QUANT_SIZES of the gguf package 0.19.
#include <algorithm>

#include "formats/gguf/gguf.h"

namespace tern {
namespace {

constexpr GgufType t(uint32_t id) { return static_cast<GgufType>(id); }

constexpr GgufTypeRow kRows[] = {
    {t(0), "F32", 1, 4},         {t(1), "F16", 1, 2},         {t(2), "Q4_0", 32, 18},      {t(3), "Q4_1", 32, 20},
    {t(6), "Q5_0", 32, 22},      {t(7), "Q5_1", 32, 24},      {t(8), "Q8_0", 32, 34},      {t(9), "Q8_1", 32, 40},
    {t(10), "Q2_K", 256, 84},    {t(11), "Q3_K", 256, 110},   {t(12), "Q4_K", 256, 144},   {t(13), "Q5_K", 256, 176},
    {t(14), "Q6_K", 256, 210},   {t(15), "Q8_K", 256, 292},   {t(16), "IQ2_XXS", 256, 66}, {t(17), "IQ2_XS", 256, 74},
    {t(18), "IQ3_XXS", 256, 98}, {t(19), "IQ1_S", 256, 50},   {t(20), "IQ4_NL", 32, 18},   {t(21), "IQ3_S", 256, 110},
    {t(22), "IQ2_S", 256, 82},   {t(23), "IQ4_XS", 256, 136}, {t(24), "I8", 1, 1},         {t(25), "I16", 1, 2},
    {t(26), "I32", 1, 4},        {t(27), "I64", 1, 8},        {t(28), "F64", 1, 8},        {t(29), "IQ1_M", 256, 56},
    {t(30), "BF16", 1, 2},       {t(34), "TQ1_0", 256, 54},   {t(35), "TQ2_0", 256, 66},   {t(39), "MXFP4", 32, 17},
    {t(40), "NVFP4", 64, 36},    {t(41), "Q1_0", 128, 18},
};

}  // namespace

const GgufTypeRow* gguf_type_row(uint32_t type) {
  const auto* found = std::find_if(std::begin(kRows), std::end(kRows), [&](auto& r) { return r.type == t(type); });
  return found == std::end(kRows) ? nullptr : found;
}

std::string_view name_of(GgufValueType type) {
  static constexpr std::string_view kNames[] = {"u8",      "i8",     "u16",   "i16", "u32", "i32", "f32",
                                                "boolean", "string", "array", "u64", "i64", "f64"};
  return static_cast<size_t>(type) < std::size(kNames) ? kNames[static_cast<size_t>(type)] : "unknown";
}

}  // namespace tern
