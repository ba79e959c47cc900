#pragma once
// Little-endian numbers of a GGUF file. Never leaves this folder.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "formats/gguf/gguf.h"

namespace tern {

static_assert(std::endian::native == std::endian::little, "GGUF is little-endian, and so is what tern reads it on");

/// The number at byte `at`, which need not be aligned.
template <class T>
T gguf_load(std::span<const std::byte> bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

/// Bytes of a single value of fixed size; 0 for strings and arrays.
constexpr size_t gguf_value_bytes(GgufValueType t) {
  switch (t) {
    case GgufValueType::u8:
    case GgufValueType::i8:
    case GgufValueType::boolean:
      return 1;
    case GgufValueType::u16:
    case GgufValueType::i16:
      return 2;
    case GgufValueType::u32:
    case GgufValueType::i32:
    case GgufValueType::f32:
      return 4;
    case GgufValueType::u64:
    case GgufValueType::i64:
    case GgufValueType::f64:
      return 8;
    default:
      return 0;
  }
}

}  // namespace tern
