#include "kernels/cpu/matrix_units_table.h"

#include "kernels/cpu/lanes_impl.h"
#include "kernels/cpu/tiles_impl.h"

namespace tern::TERN_ISA_NAMESPACE {
namespace {

// Twelve sums: enough to hide a multiply-add's latency on two ports, and few enough for the registers of any set. By
// name, not in an array: g++ keeps one of those in memory.
constexpr int kChains = 12;

/// The compiler may not know what x is: else a product that is always the same would leave the loop, and equal sums
/// would become one.
inline __attribute__((always_inline)) void forget(Vec& x) {
#if defined(__x86_64__)
  asm volatile("" : "+v"(x));
#elif defined(__aarch64__)
  asm volatile("" : "+w"(x));
#else
  asm volatile("" : "+m"(x));
#endif
}

#define TERN_EACH_CHAIN(f) f(c0) f(c1) f(c2) f(c3) f(c4) f(c5) f(c6) f(c7) f(c8) f(c9) f(c10) f(c11)
#define TERN_ZERO(c) \
  Vec c = splat(0);  \
  forget(c);
#define TERN_ADD_UP(c) total += sum(c);

float f32_loop(int64_t steps, const float* ones) {
  Vec a = load(ones), b = load(ones + 16);
  TERN_EACH_CHAIN(TERN_ZERO)
#define TERN_STEP(c) \
  forget(a);         \
  c = fma(a, b, c);
  for (int64_t s = 0; s < steps; ++s) { TERN_EACH_CHAIN(TERN_STEP) }
#undef TERN_STEP
  float total = 0;
  TERN_EACH_CHAIN(TERN_ADD_UP)
  return total;
}

#if defined(__AMX_BF16__)

// Four sums, as products of matrices have them: two strips by half a panel.
float half_loop(int64_t steps, const float*) {
  alignas(64) bf16 factor[kTileElements];
  alignas(64) float c[4][256];
  for (bf16& x : factor) x.bits = 0x3f80;  // 1
  const Tiles tiles;
  finish_stores();
  _tile_loadd(4, factor, 64);
  _tile_loadd(5, factor, 64);
  _tile_loadd(6, factor, 64);
  _tile_loadd(7, factor, 64);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (int64_t s = 0; s < steps; ++s) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, c[0], 64);
  _tile_stored(1, c[1], 64);
  _tile_stored(2, c[2], 64);
  _tile_stored(3, c[3], 64);
  finish_stores();
  float total = 0;
  for (const auto& tile : c)
    for (int64_t i = 0; i < 256; i += kLanes) total += sum(load(tile + i));
  return total;
}
constexpr UnitLoop kHalf = {half_loop, 4 * 16 * 16 * 32, "tdpbf16ps on tiles"};

#elif defined(__AVX512BF16__)

float half_loop(int64_t steps, const float*) {
  alignas(64) uint32_t pairs[16];
  for (uint32_t& p : pairs) p = 0x3f803f80;  // 1, 1
  VecUint a, b;
  __builtin_memcpy(&a, pairs, sizeof a);
  __builtin_memcpy(&b, pairs, sizeof b);
  TERN_EACH_CHAIN(TERN_ZERO)
#define TERN_STEP(c) asm volatile("vdpbf16ps %2, %1, %0" : "+v"(c) : "v"(a), "v"(b));
  for (int64_t s = 0; s < steps; ++s) { TERN_EACH_CHAIN(TERN_STEP) }
#undef TERN_STEP
  float total = 0;
  TERN_EACH_CHAIN(TERN_ADD_UP)
  return total;
}
constexpr UnitLoop kHalf = {half_loop, kChains * 32, "vdpbf16ps, 16 sums"};

#else

constexpr UnitLoop kHalf = {};

#endif

#if defined(__AVX512F__)
constexpr const char* kName = "fused multiply-add, 16 lanes";
#elif defined(__AVX2__)
constexpr const char* kName = "fused multiply-add, 8 lanes";
#elif defined(__aarch64__)
constexpr const char* kName = "fused multiply-add, 4 lanes";
#else
constexpr const char* kName = "multiply and add, 4 lanes";
#endif

}  // namespace

const MatrixUnitsTable matrix_units_table = {.f32 = {f32_loop, kChains* kLanes, kName}, .bfloat16 = kHalf};

}  // namespace tern::TERN_ISA_NAMESPACE
