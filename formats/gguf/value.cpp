// Values of the metadata. The reader has walked over every one of them: their bytes are there.
#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "formats/gguf/gguf_impl.h"

namespace tern {
namespace {

// Bytes a value takes in the file.
size_t extent(GgufValueType type, std::span<const std::byte> data) {
  if (const size_t fixed = gguf_value_bytes(type)) return fixed;
  if (type == GgufValueType::string) return 8 + static_cast<size_t>(gguf_load<uint64_t>(data, 0));
  const auto inner = static_cast<GgufValueType>(gguf_load<uint32_t>(data, 0));
  const auto count = static_cast<size_t>(gguf_load<uint64_t>(data, 4));
  size_t at = 12;
  if (const size_t fixed = gguf_value_bytes(inner)) return at + fixed * count;
  for (size_t i = 0; i < count; ++i) at += extent(inner, data.subspan(at));
  return at;
}

}  // namespace

void GgufValue::wrong(std::string_view wanted) const {
  throw Error(ErrorKind::bad_file, "{}: key '{}' is {} {}, {} is needed", *place_, make_printable(key_.substr(0, 100)),
              type_ == GgufValueType::array ? "an" : "of type", name_of(type_), wanted);
}
void GgufValue::want_array() const {
  if (type_ != GgufValueType::array) wrong("an array");
}

bool GgufValue::is_integer() const {
  return type_ <= GgufValueType::i32 || type_ == GgufValueType::u64 || type_ == GgufValueType::i64;
}

uint64_t GgufValue::bits() const {
  const auto extended = [](auto v) { return static_cast<uint64_t>(static_cast<int64_t>(v)); };
  switch (type_) {
    case GgufValueType::u8:
      return gguf_load<uint8_t>(data_, 0);
    case GgufValueType::u16:
      return gguf_load<uint16_t>(data_, 0);
    case GgufValueType::u32:
      return gguf_load<uint32_t>(data_, 0);
    case GgufValueType::i8:
      return extended(gguf_load<int8_t>(data_, 0));
    case GgufValueType::i16:
      return extended(gguf_load<int16_t>(data_, 0));
    case GgufValueType::i32:
      return extended(gguf_load<int32_t>(data_, 0));
    default:
      return gguf_load<uint64_t>(data_, 0);
  }
}

uint64_t GgufValue::as_u64() const {
  if (!is_integer()) wrong("an integer");
  const uint64_t v = bits();
  if (type_ != GgufValueType::u64 && static_cast<int64_t>(v) < 0) wrong("an integer that is not negative");
  return v;
}

int64_t GgufValue::as_i64() const {
  if (!is_integer()) wrong("an integer");
  const auto v = static_cast<int64_t>(bits());
  if (type_ == GgufValueType::u64 && v < 0) wrong("an integer below 2^63");
  return v;
}

double GgufValue::as_number() const {
  if (type_ == GgufValueType::f32) return static_cast<double>(gguf_load<float>(data_, 0));
  if (type_ == GgufValueType::f64) return gguf_load<double>(data_, 0);
  if (!is_integer()) wrong("a number");
  return type_ == GgufValueType::u64 ? static_cast<double>(bits()) : static_cast<double>(static_cast<int64_t>(bits()));
}

bool GgufValue::as_bool() const {
  if (type_ != GgufValueType::boolean) wrong("a boolean");
  return gguf_load<uint8_t>(data_, 0) != 0;
}

std::string_view GgufValue::as_string() const {
  if (type_ != GgufValueType::string) wrong("a string");
  return {reinterpret_cast<const char*>(data_.data()) + 8, static_cast<size_t>(gguf_load<uint64_t>(data_, 0))};
}

GgufValueType GgufValue::element_type() const {
  want_array();
  return static_cast<GgufValueType>(gguf_load<uint32_t>(data_, 0));
}

uint64_t GgufValue::size() const {
  want_array();
  return gguf_load<uint64_t>(data_, 4);
}

std::vector<GgufValue> GgufValue::elements() const {
  std::vector<GgufValue> out(static_cast<size_t>(size()), *this);
  size_t at = 12;
  for (GgufValue& element : out) {
    element.type_ = element_type();
    element.data_ = data_.subspan(at);
    at += extent(element.type_, element.data_);
  }
  return out;
}

std::vector<std::string_view> GgufValue::as_strings() const {
  if (element_type() != GgufValueType::string) wrong("an array of strings");
  std::vector<std::string_view> out(static_cast<size_t>(size()));
  size_t at = 12;
  for (std::string_view& s : out) {
    const auto bytes = static_cast<size_t>(gguf_load<uint64_t>(data_, at));
    s = {reinterpret_cast<const char*>(data_.data()) + at + 8, bytes};
    at += 8 + bytes;
  }
  return out;
}

// The numbers of an array of elements of fixed size, from its bytes.
template <class T, class Read>
std::vector<T> GgufValue::numbers(const Read& read) const {
  std::vector<T> out(static_cast<size_t>(size()));
  GgufValue element = *this;
  element.type_ = element_type();
  const size_t bytes = gguf_value_bytes(element.type_);
  for (size_t i = 0; i < out.size(); ++i) {
    element.data_ = data_.subspan(12 + i * bytes, bytes);
    out[i] = read(element);
  }
  return out;
}

std::span<const std::byte> GgufValue::as_bytes() const {
  const GgufValueType type = element_type();
  if (type != GgufValueType::u8 && type != GgufValueType::i8) wrong("an array of bytes");
  return data_.subspan(12, static_cast<size_t>(size()));
}

std::vector<double> GgufValue::as_numbers() const {
  if (gguf_value_bytes(element_type()) == 0 || element_type() == GgufValueType::boolean) wrong("an array of numbers");
  return numbers<double>([](const GgufValue& element) { return element.as_number(); });
}

std::vector<int64_t> GgufValue::as_i64s() const {
  const GgufValueType type = element_type();
  if (gguf_value_bytes(type) == 0 || type == GgufValueType::boolean || type == GgufValueType::f32 ||
      type == GgufValueType::f64)
    wrong("an array of integers");
  return numbers<int64_t>([](const GgufValue& element) { return element.as_i64(); });
}

}  // namespace tern
