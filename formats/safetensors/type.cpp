#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>

#include "base/bug.h"
#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "formats/safetensors/safetensors.h"
#include "formats/safetensors/safetensors_impl.h"

namespace tern {
namespace {

// Source: the dtypes of safetensors 0.8, in the order its writer sorts by (observed on a file with one tensor of each).
constexpr std::array<SafetensorsType, 22> kTypes{{
    {"BOOL", 8, DType::boolean},
    {"F4", 4, {}},
    {"F6_E2M3", 6, {}},
    {"F6_E3M2", 6, {}},
    {"U8", 8, DType::u8},
    {"I8", 8, DType::i8},
    {"F8_E5M2", 8, {}},
    {"F8_E4M3", 8, {}},
    {"F8_E8M0", 8, {}},
    {"F8_E4M3FNUZ", 8, {}},
    {"F8_E5M2FNUZ", 8, {}},
    {"I16", 16, DType::i16},
    {"U16", 16, DType::u16},
    {"F16", 16, DType::f16},
    {"BF16", 16, DType::bf16},
    {"I32", 32, DType::i32},
    {"U32", 32, {}},
    {"F32", 32, DType::f32},
    {"C64", 64, {}},
    {"F64", 64, DType::f64},
    {"I64", 64, DType::i64},
    {"U64", 64, {}},
}};

}  // namespace

std::span<const SafetensorsType> safetensors_types() { return kTypes; }

int safetensors_type_row(std::string_view name) {
  for (size_t i = 0; i < kTypes.size(); ++i)
    if (kTypes[i].name == name) return static_cast<int>(i);
  return -1;
}

int safetensors_type_row(DType dtype) {
  for (size_t i = 0; i < kTypes.size(); ++i)
    if (kTypes[i].dtype == dtype) return static_cast<int>(i);
  throw Bug("safetensors: no name for dtype {}", name_of(dtype));
}

std::string_view safetensors_name(DType dtype) { return kTypes[static_cast<size_t>(safetensors_type_row(dtype))].name; }

std::optional<int64_t> safetensors_bytes(std::span<const int64_t> shape, uint64_t bits) {
  // The sizes other than zero must multiply without overflow too: strides are computed from them.
  int64_t total_bits = static_cast<int64_t>(bits);
  bool empty = false;
  for (const int64_t size : shape) {
    if (size < 0) return {};
    if (size == 0) {
      empty = true;
    } else if (__builtin_mul_overflow(total_bits, size, &total_bits)) {
      return {};
    }
  }
  if (empty) return 0;
  if (total_bits % 8 != 0) return {};
  return total_bits / 8;
}

std::string shape_text(std::span<const int64_t> shape) {
  return fmt::format("({}{})", fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
}

std::string shown(std::string_view name) {
  constexpr size_t kMost = 120;
  if (name.size() <= kMost) return quote_json(name);
  // A cut inside a character shows as one replacement mark; good enough for a message.
  return fmt::format("{}… ({} bytes)", quote_json(name.substr(0, kMost)), name.size());
}

std::string nearest_tensor(std::string_view name, const std::vector<std::string_view>& names) {
  if (names.size() > 50'000 || name.size() > 200) return "";
  const std::string_view near = nearest_name(name, names);
  return near.empty() ? "" : fmt::format("; did you mean {}?", shown(near));
}

void check_readable(const std::string& place, const TensorView& tensor) {
  if (!tensor.dtype)
    throw Error(ErrorKind::bad_file,
                "{}: tensor {} is {}, which tern does not compute with; use the model's f32, bf16 or f16 weights",
                place, shown(tensor.name), tensor.dtype_name);
}

}  // namespace tern
