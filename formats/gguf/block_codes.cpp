#include "formats/gguf/block_codes.h"

#include <span>

#include "base/bug.h"
#include "base/dtype.h"

namespace tern {
namespace {

constexpr size_t kCodes = 32;  // of a block

template <class T>
void append_number(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

}  // namespace

BlockLevels levels_of(WeightType type) {
  switch (type) {
    case WeightType::q8_0:
      return {128, 255, false};
    case WeightType::q5_1:
      return {0, 31, true};
    case WeightType::q5_0:
      return {16, 31, false};
    case WeightType::q4_1:
      return {0, 15, true};
    case WeightType::q4_0:
      return {8, 15, false};
    default:
      break;
  }
  throw Bug("levels_of: {}", name_of(type));
}

void append_block(WeightType type, const BlockCodes& block, std::string& out) {
  const BlockLevels levels = levels_of(type);
  const std::span q = std::span(block.codes).first<kCodes>();
  append_number(out, to_f16(block.scale).bits);
  if (levels.has_least) append_number(out, to_f16(block.least).bits);
  if (type == WeightType::q8_0) {
    for (const uint8_t code : q) append_number(out, static_cast<int8_t>(code - levels.zero));
    return;
  }
  if (levels.most == 31) {  // fifth bits first, number i at bit i
    uint32_t high = 0;
    for (size_t i = 0; i < kCodes; ++i) high |= static_cast<uint32_t>(q[i] >> 4 & 1) << i;
    append_number(out, high);
  }
  // Low nibbles are the first 16 numbers, high ones the others.
  for (size_t i = 0; i < kCodes / 2; ++i) append_number(out, static_cast<uint8_t>((q[i] & 15) | (q[i + 16] & 15) << 4));
}

}  // namespace tern
