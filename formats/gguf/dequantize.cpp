#include "formats/gguf/dequantize.h"

#include <array>

#include "base/dtype.h"
#include "base/error.h"
#include "formats/gguf/gguf_impl.h"

namespace tern {
namespace {

using Bytes = std::span<const std::byte>;

constexpr size_t kSuper = 256;  // elements of a k-quant's block

float half_at(Bytes b, size_t at) { return to_float(f16{gguf_load<uint16_t>(b, at)}); }
uint32_t byte_at(Bytes b, size_t at) { return static_cast<uint32_t>(b[at]); }
int signed_at(Bytes b, size_t at) { return static_cast<int8_t>(b[at]); }

// Q8_0: f16 d; 32 × i8 q.  x = q·d
void q8_0(Bytes b, float* y) {
  const float d = half_at(b, 0);
  for (size_t i = 0; i < 32; ++i) y[i] = static_cast<float>(signed_at(b, 2 + i)) * d;
}

// Q4_0: f16 d; 16 bytes: low nibbles are elements 0…15, high ones 16…31.  x = d·(q − 8)
void q4_0(Bytes b, float* y) {
  const float d = half_at(b, 0);
  for (size_t i = 0; i < 16; ++i) {
    const uint32_t q = byte_at(b, 2 + i);
    y[i] = d * static_cast<float>(static_cast<int>(q & 15) - 8);
    y[i + 16] = d * static_cast<float>(static_cast<int>(q >> 4) - 8);
  }
}

struct ScaleMin {
  std::array<uint32_t, 8> scale, min;  // six bits each
};

// Twelve bytes of the k-quants: four of low scales, four of low minima (six bits, the upper two belong to the high
// ones), four of nibbles: low scale, high minimum of sub-blocks 4 to 7.
ScaleMin scale_min(Bytes b, size_t at) {
  ScaleMin s{};
  for (size_t i = 0; i < 4; ++i) {
    const uint32_t lo = byte_at(b, at + i), mid = byte_at(b, at + 4 + i), hi = byte_at(b, at + 8 + i);
    s.scale[i] = lo & 63;
    s.min[i] = mid & 63;
    s.scale[i + 4] = (hi & 15) | (lo >> 2 & 48);
    s.min[i + 4] = (hi >> 4) | (mid >> 2 & 48);
  }
  return s;
}

// Q4_K: f16 d, dmin; 12 bytes of scales; 128 bytes: each 32 hold sub-blocks 2j (low nibbles) and 2j+1.
// x = (d·scale)·q − dmin·min.   Q5_K: 32 bytes of fifth bits before the nibbles, bit s of byte i for sub-block s.
void k_4_or_5(Bytes b, float* y, bool five) {
  const float d = half_at(b, 0), dmin = half_at(b, 2);
  const ScaleMin s = scale_min(b, 4);
  const size_t high = 16, low = five ? 48 : 16;
  for (size_t sub = 0; sub < 8; ++sub) {
    const float scale = d * static_cast<float>(s.scale[sub]), min = dmin * static_cast<float>(s.min[sub]);
    for (size_t i = 0; i < 32; ++i) {
      uint32_t q = byte_at(b, low + sub / 2 * 32 + i) >> (sub % 2 * 4) & 15;
      if (five) q |= (byte_at(b, high + i) >> sub & 1) << 4;
      y[sub * 32 + i] = scale * static_cast<float>(q) - min;
    }
  }
}

// Q6_K: 128 bytes of low nibbles, 64 of upper pairs, 16 × i8 scales, f16 d.  x = (d·scale)·(q − 32)
// Each half of 128 elements: 64 bytes of nibbles (low: rows 0, 1; high: rows 2, 3 of 32), 32 bytes of pairs.
void q6_k(Bytes b, float* y) {
  const float d = half_at(b, 208);
  for (size_t i = 0; i < kSuper; ++i) {
    const size_t half = i / 128, row = i / 32 % 4, lane = i % 32;
    const uint32_t low = byte_at(b, half * 64 + row % 2 * 32 + lane) >> (row / 2 * 4) & 15;
    const uint32_t high = byte_at(b, 128 + half * 32 + lane) >> (row * 2) & 3;
    const float scale = d * static_cast<float>(signed_at(b, 192 + i / 16));
    y[i] = scale * static_cast<float>(static_cast<int>(low | high << 4) - 32);
  }
}

// IQ4_XS: f16 d, 16 bits of upper scale pairs, 4 bytes of lower scale nibbles, 128 bytes of nibbles into a table.
// x = (d·(scale − 32))·table[q]; sub-block of 32: low nibbles of its 16 bytes, then high ones.
void iq4_xs(Bytes b, float* y) {
  static constexpr int kTable[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
  const float d = half_at(b, 0);
  const uint32_t upper = gguf_load<uint16_t>(b, 2);
  for (size_t sub = 0; sub < 8; ++sub) {
    const uint32_t lower = byte_at(b, 4 + sub / 2) >> (sub % 2 * 4) & 15;
    const float scale = d * static_cast<float>(static_cast<int>(lower | (upper >> (2 * sub) & 3) << 4) - 32);
    for (size_t i = 0; i < 16; ++i) {
      const uint32_t q = byte_at(b, 8 + sub * 16 + i);
      y[sub * 32 + i] = scale * static_cast<float>(kTable[q & 15]);
      y[sub * 32 + 16 + i] = scale * static_cast<float>(kTable[q >> 4]);
    }
  }
}

void dequantize_block(GgufType type, Bytes b, float* y) {
  switch (type) {
    case GgufType::f32:
      *y = gguf_load<float>(b, 0);
      return;
    case GgufType::f16:
      *y = half_at(b, 0);
      return;
    case GgufType::bf16:
      *y = to_float(bf16{gguf_load<uint16_t>(b, 0)});
      return;
    case GgufType::q8_0:
      return q8_0(b, y);
    case GgufType::q4_0:
      return q4_0(b, y);
    case GgufType::q4_k:
      return k_4_or_5(b, y, false);
    case GgufType::q5_k:
      return k_4_or_5(b, y, true);
    case GgufType::q6_k:
      return q6_k(b, y);
    case GgufType::iq4_xs:
      return iq4_xs(b, y);
  }
}

}  // namespace

bool gguf_can_dequantize(GgufType type) {
  switch (type) {
    case GgufType::f32:
    case GgufType::f16:
    case GgufType::bf16:
    case GgufType::q8_0:
    case GgufType::q4_0:
    case GgufType::q4_k:
    case GgufType::q5_k:
    case GgufType::q6_k:
    case GgufType::iq4_xs:
      return true;
  }
  return false;
}

void gguf_dequantize(GgufType type, std::span<const std::byte> bytes, std::span<float> out) {
  const GgufTypeRow* row = gguf_type_row(static_cast<uint32_t>(type));
  if (!row || !gguf_can_dequantize(type))
    throw Error(ErrorKind::bad_file,
                "GGUF type {} is not read yet; tern reads F32, F16, BF16, Q8_0, Q4_0, Q4_K, Q5_K, Q6_K and IQ4_XS",
                row ? std::string(row->name) : std::to_string(static_cast<uint32_t>(type)));
  const auto block = static_cast<size_t>(row->block_bytes), elements = static_cast<size_t>(row->block_elements);
  TERN_CHECK(bytes.size() % block == 0 && bytes.size() / block * elements == out.size(),
             "gguf_dequantize: {} bytes of {}, {} floats", bytes.size(), row->name, out.size());
  for (size_t i = 0; i < bytes.size() / block; ++i)
    dequantize_block(type, bytes.subspan(i * block, block), out.data() + i * elements);
}

}  // namespace tern
