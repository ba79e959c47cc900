#include "model/hf_quantized.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/dtype.h"
#include "base/error.h"
#include "kernels/cpu/decode.h"

namespace tern {
namespace {

constexpr int64_t kRowsAtOnce = 64;

template <class T>
T element(const TensorView& view, int64_t i) {
  T x;
  std::memcpy(&x, view.bytes.data() + i * static_cast<int64_t>(sizeof x), sizeof x);
  return x;
}

float number_of(const TensorView& view, int64_t i) {
  switch (*view.dtype) {
    case DType::f32:
      return element<float>(view, i);
    case DType::f16:
      return to_float(element<f16>(view, i));
    default:
      return to_float(element<bf16>(view, i));
  }
}

// Code n of a stream of `bits` each through the words first, first + step, …
template <class Word>
uint32_t code_at(const Word& word, int64_t n, int64_t bits) {
  const int64_t at = n * bits, shift = at % 32;
  uint64_t both = word(at / 32);
  if (shift + bits > 32) both |= static_cast<uint64_t>(word(at / 32 + 1)) << 32;
  return static_cast<uint32_t>(both >> shift) & ((1u << bits) - 1);
}

// AWQ's place of a column among eight.
constexpr int kAwqNibble[8] = {0, 4, 1, 5, 2, 6, 3, 7};
uint32_t awq_code(const TensorView& view, int64_t row, int64_t column, int64_t columns) {
  return element<uint32_t>(view, row * (columns / 8) + column / 8) >> 4 * kAwqNibble[column % 8] & 15;
}

bool is_by_input(const HfQuantizedMatrix& m) {
  return m.packing == HfPacking::gptq || m.packing == HfPacking::gptq_v2 || m.packing == HfPacking::awq;
}
bool is_mxfp4(const HfQuantizedMatrix& m) {
  return m.packing == HfPacking::mxfp4 || (m.packing == HfPacking::compressed && m.codes.dtype == DType::u8);
}
bool is_plain_int8(const HfQuantizedMatrix& m) {
  return m.packing == HfPacking::compressed && m.codes.dtype == DType::i8;
}

float scale_at(const HfQuantizedMatrix& m, int64_t row, int64_t group) {
  return number_of(m.scales, is_by_input(m) ? group * m.out + row : row * m.groups + group);
}

// The zero of AutoGPTQ's files, which are written less one: word by word, with what is carried to the next code, but where codes
// lie over two words.
uint32_t gptq_zero(const HfQuantizedMatrix& m, int64_t row, int64_t group) {
  const uint32_t mask = (1u << m.bits) - 1;
  const bool less_one = m.packing == HfPacking::gptq;
  uint32_t ones = 0;
  if (less_one && 32 % m.bits == 0)
    for (int64_t at = 0; at < 32; at += m.bits) ones |= 1u << at;
  const int64_t words = m.out * m.bits / 32;
  const uint32_t zero =
      code_at([&](int64_t w) { return element<uint32_t>(*m.zeros, group * words + w) + ones; }, row, m.bits);
  return less_one && ones == 0 ? (zero + 1) & mask : zero;
}

int32_t zero_at(const HfQuantizedMatrix& m, int64_t row, int64_t group) {
  const auto middle = static_cast<int32_t>(1u << (m.bits - 1));
  if (!m.zeros) return middle;
  if (m.packing == HfPacking::awq) return static_cast<int32_t>(awq_code(*m.zeros, group, row, m.out));
  if (is_by_input(m)) return static_cast<int32_t>(gptq_zero(m, row, group));
  if (is_plain_int8(m)) return middle + element<int8_t>(*m.zeros, row * m.groups + group);
  return static_cast<int32_t>(
      code_at([&](int64_t w) { return element<uint32_t>(*m.zeros, w * m.groups + group); }, row, m.bits));
}

// The codes of rows [begin, end), (end - begin, in).
void codes_of_rows(const HfQuantizedMatrix& m, int64_t begin, int64_t end, uint8_t* to) {
  const int64_t in = m.in;
  if (m.packing == HfPacking::awq) {
    for (int64_t k = 0; k < in; ++k)
      for (int64_t r = begin; r < end; ++r)
        to[(r - begin) * in + k] = static_cast<uint8_t>(awq_code(m.codes, k, r, m.out));
  } else if (is_by_input(m)) {
    for (int64_t k = 0; k < in; ++k)
      for (int64_t r = begin; r < end; ++r)
        to[(r - begin) * in + k] = static_cast<uint8_t>(
            code_at([&](int64_t w) { return element<uint32_t>(m.codes, w * m.out + r); }, k, m.bits));
  } else if (is_plain_int8(m)) {
    for (int64_t i = begin * in; i < end * in; ++i)
      to[i - begin * in] = static_cast<uint8_t>(element<int8_t>(m.codes, i) + 128);
  } else {
    const int64_t words = (in * m.bits + 31) / 32;
    for (int64_t r = begin; r < end; ++r)
      for (int64_t k = 0; k < in; ++k)
        to[(r - begin) * in + k] = static_cast<uint8_t>(
            code_at([&](int64_t w) { return element<uint32_t>(m.codes, r * words + w); }, k, m.bits));
  }
}

float absmax_at(const HfQuantizedMatrix& m, int64_t block) {
  if (!m.nested) return number_of(m.scales, block);
  const float code = number_of(*m.nested_map, element<uint8_t>(m.scales, block));
  const float coded =
      code * number_of(*m.nested, block / m.nested_block);  // rounded before the sum, as the package does
  return coded + m.nested_offset;
}

void nf4_blocks(const HfQuantizedMatrix& m, int64_t begin, int64_t end, std::byte* to) {
  constexpr int64_t kBlock = 64, kBytes = 36;
  const int64_t per_row = m.in / kBlock;
  for (int64_t n = begin * per_row; n < end * per_row; ++n, to += kBytes) {
    const float scale = absmax_at(m, n * kBlock / m.block);
    std::memcpy(to, &scale, 4);
    std::memcpy(to + 4, m.codes.bytes.data() + n * kBlock / 2, kBlock / 2);
  }
}

void mxfp4_blocks(const HfQuantizedMatrix& m, int64_t begin, int64_t end, std::byte* to) {
  for (int64_t n = begin * m.groups; n < end * m.groups; ++n, to += 17)
    write_mxfp4_block(m.codes.bytes.data() + 16 * n, m.scales.bytes[static_cast<size_t>(n)], to);
}

// What stands in blocks already, but for their order: the type, or nothing.
std::optional<WeightType> type_of_blocks(const HfQuantizedMatrix& m) {
  if (m.packing == HfPacking::bitsandbytes) return WeightType::nf4;
  if (is_mxfp4(m)) return WeightType::mxfp4;
  return {};
}
void blocks_of_rows(const HfQuantizedMatrix& m, int64_t begin, int64_t end, std::byte* to) {
  is_mxfp4(m) ? mxfp4_blocks(m, begin, end, to) : nf4_blocks(m, begin, end, to);
}

// x = s·(q − z) of rows whose codes are given: in f32 the product is exact for scales of 16 bits.
void numbers_of_row(const HfQuantizedMatrix& m, int64_t row, const uint8_t* codes, float* to) {
  std::vector<float> scales(static_cast<size_t>(m.groups));
  std::vector<int32_t> zeros(static_cast<size_t>(m.groups));
  for (int64_t g = 0; g < m.groups; ++g)
    scales[static_cast<size_t>(g)] = scale_at(m, row, g), zeros[static_cast<size_t>(g)] = zero_at(m, row, g);
  const int64_t width = m.in / m.groups;
  for (int64_t k = 0; k < m.in; ++k) {
    const auto g = static_cast<size_t>(m.order ? element<int32_t>(*m.order, k) : k / width);
    to[k] = scales[g] * static_cast<float>(static_cast<int32_t>(codes[k]) - zeros[g]);
  }
}

// Block n of a row; its codes in the type's order.
void write_block(WeightType type, float scale, int32_t zero, const uint8_t* q, std::byte* to) {
  auto* out = reinterpret_cast<uint8_t*>(to);
  if (type == WeightType::q4_0 || type == WeightType::q8_0) {
    const f16 d = to_f16(scale);
    std::memcpy(out, &d, 2);
    if (type == WeightType::q8_0)
      for (int i = 0; i < 32; ++i) out[2 + i] = static_cast<uint8_t>(q[i] - 128);
    else
      for (int i = 0; i < 16; ++i) out[2 + i] = static_cast<uint8_t>(q[i] | q[16 + i] << 4);
    return;
  }
  const float offset = -scale * static_cast<float>(zero);
  std::memcpy(out, &scale, 4);
  std::memcpy(out + 4, &offset, 4);
  uint8_t* codes = out + 8;
  if (type == WeightType::u4) {
    for (int i = 0; i < 32; ++i) codes[i] = static_cast<uint8_t>(q[i] | q[32 + i] << 4);
    return;
  }
  for (int i = 0; i < 16; ++i) {
    codes[i] = 0;
    for (int j = 0; j < 4; ++j) codes[i] = static_cast<uint8_t>(codes[i] | (q[16 * j + i] & 3) << 2 * j);
  }
  if (type == WeightType::u2) return;
  for (int i = 0; i < 8; ++i) {
    codes[16 + i] = 0;
    for (int j = 0; j < 8; ++j) codes[16 + i] = static_cast<uint8_t>(codes[16 + i] | (q[8 * j + i] >> 2) << j);
  }
}

bool is_f16_number(float x) { return std::isfinite(x) && to_float(to_f16(x)) == x; }
// Products with codes of 4 bits, and their differences, are exact.
bool has_short_mantissa(float x) { return x > 0 && std::isnormal(x) && (std::bit_cast<uint32_t>(x) & 31) == 0; }

struct Numbers {
  bool in_f16 = true, are_short = true, in_the_middle = true;
};
Numbers look_at(const HfQuantizedMatrix& m) {
  Numbers n;
  const auto middle = static_cast<int32_t>(1u << (m.bits - 1));
  for (int64_t r = 0; r < m.out; ++r)
    for (int64_t g = 0; g < m.groups; ++g) {
      const float s = scale_at(m, r, g);
      n.in_f16 = n.in_f16 && is_f16_number(s);
      n.are_short = n.are_short && has_short_mantissa(s);
      n.in_the_middle = n.in_the_middle && zero_at(m, r, g) == middle;
    }
  return n;
}

}  // namespace

std::optional<WeightType> exact_type(const HfQuantizedMatrix& m) {
  if (const std::optional<WeightType> type = type_of_blocks(m)) return type;
  const int64_t width = m.in / m.groups;
  if (m.order) return {};
  const Numbers n = look_at(m);
  if (m.bits == 4 && n.in_the_middle && n.in_f16 && width % 32 == 0) return WeightType::q4_0;
  if (m.bits == 8)
    return n.in_the_middle && n.in_f16 && width % 32 == 0 ? std::optional(WeightType::q8_0) : std::nullopt;
  if (!n.are_short || width % 64 != 0) return {};
  return m.bits == 4 ? WeightType::u4 : m.bits == 3 ? WeightType::u3 : WeightType::u2;
}

void write_mxfp4_block(const std::byte* pairs, std::byte exponent, std::byte* to) {
  const auto half = [&](int i) { return pairs[i / 2] >> (i % 2 * 4) & std::byte{15}; };
  to[0] = exponent;
  for (int i = 0; i < 16; ++i) to[1 + i] = half(i) | half(16 + i) << 4;
}

void unpack_blocks(const HfQuantizedMatrix& m, WeightType type, int64_t begin, int64_t end, std::byte* to) {
  const int64_t row_bytes = stored_bytes(type, 1, m.in), block = row_of(type).block_elements;
  const int64_t bytes = row_of(type).block_bytes, width = m.in / m.groups,
                tiles = (end - begin + kRowsAtOnce - 1) / kRowsAtOnce;
#pragma omp parallel for schedule(dynamic, 1) if (tiles > 1)
  for (int64_t tile = 0; tile < tiles; ++tile) {
    const int64_t first = begin + tile * kRowsAtOnce, last = std::min(end, first + kRowsAtOnce);
    std::byte* rows = to + (first - begin) * row_bytes;
    if (type_of_blocks(m)) {
      blocks_of_rows(m, first, last, rows);
      continue;
    }
    std::vector<uint8_t> codes(static_cast<size_t>((last - first) * m.in));
    codes_of_rows(m, first, last, codes.data());
    for (int64_t r = first; r < last; ++r)
      for (int64_t k = 0; k < m.in; k += block, rows += bytes)
        write_block(type, scale_at(m, r, k / width), zero_at(m, r, k / width), codes.data() + (r - first) * m.in + k,
                    rows);
  }
}

void unpack_rows(const HfQuantizedMatrix& m, int64_t begin, int64_t end, float* to) {
  const int64_t tiles = (end - begin + kRowsAtOnce - 1) / kRowsAtOnce;
#pragma omp parallel for schedule(dynamic, 1) if (tiles > 1)
  for (int64_t tile = 0; tile < tiles; ++tile) {
    const int64_t first = begin + tile * kRowsAtOnce, last = std::min(end, first + kRowsAtOnce), count = last - first;
    float* rows = to + (first - begin) * m.in;
    if (const std::optional<WeightType> type = type_of_blocks(m)) {
      std::vector<std::byte> blocks(static_cast<size_t>(stored_bytes(*type, count, m.in)));
      blocks_of_rows(m, first, last, blocks.data());
      decode_blocks(*type, blocks, {rows, static_cast<size_t>(count * m.in)});
      continue;
    }
    std::vector<uint8_t> codes(static_cast<size_t>(count * m.in));
    codes_of_rows(m, first, last, codes.data());
    for (int64_t r = 0; r < count; ++r) numbers_of_row(m, first + r, codes.data() + r * m.in, rows + r * m.in);
  }
}

}  // namespace tern
