// Dense types: blocks of one number.

#include "kernels/cpu/decode_impl.h"

namespace tern::TERN_ISA_NAMESPACE {

void decode_f32(const uint8_t* blocks, int64_t count, float* __restrict out) {
  __builtin_memcpy(out, blocks, static_cast<size_t>(count) * sizeof(float));
}

void decode_f16(const uint8_t* blocks, int64_t count, float* __restrict out) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    VecU16 h;
    __builtin_memcpy(&h, blocks + 2 * i, sizeof h);
    store(out + i, halves(h));
  }
  for (; i < count; ++i) out[i] = half_at(blocks + 2 * i);
}

void decode_bf16(const uint8_t* blocks, int64_t count, float* __restrict out) {
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t bits = static_cast<uint32_t>(number_at<uint16_t>(blocks + 2 * i)) << 16;
    __builtin_memcpy(out + i, &bits, 4);
  }
}

}  // namespace tern::TERN_ISA_NAMESPACE
