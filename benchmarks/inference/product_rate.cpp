// GFLOP/s of products whose operands lie in registers, by all threads at once: the limit of products in a batch. Products of bf16 on
// the tile unit (AMX) where the machine has one, else f32 multiply-adds. It shares no code with tern.
//
//   product_rate [THREADS] [ROUNDS]      prints the best and the median round
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#if defined(__AVX512F__)
typedef float Lanes __attribute__((vector_size(64)));
#elif defined(__AVX__)
typedef float Lanes __attribute__((vector_size(32)));
#else
typedef float Lanes __attribute__((vector_size(16)));
#endif

#if defined(__AMX_BF16__)
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

static constexpr int kArchReqXcompPerm = 0x1023, kTileData = 18;  // arch_prctl(2)
static constexpr int64_t kTimes = 2'000'000;
static constexpr double kFlops = 4 * 2.0 * 16 * 16 * 32;  // of a time: four products of 16 × 32 by 32 × 16

static float multiply_add(float) {
  struct alignas(64) {
    uint8_t palette = 1, start = 0, zero[14] = {};
    uint16_t row_bytes[16] = {};
    uint8_t rows[16] = {};
  } config;
  for (int i = 0; i < 8; ++i) config.row_bytes[i] = 64, config.rows[i] = 16;
  asm volatile("" ::"r"(&config) : "memory");
  _tile_loadconfig(&config);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_zero(4);
  _tile_zero(5);
  _tile_zero(6);
  _tile_zero(7);
  for (int64_t t = 0; t < kTimes; ++t) {  // four sums: the latency of an instruction is hidden
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  alignas(64) float sum[16 * 16];
  _tile_stored(0, sum, 64);
  asm volatile("" ::: "memory");
  _tile_release();
  return sum[0];
}
static bool may_multiply() { return syscall(SYS_arch_prctl, kArchReqXcompPerm, kTileData) == 0; }
#else
static constexpr int kSums =
    12;  // independent ones: the latency of an instruction is hidden, and none leaves its register
static constexpr int64_t kTimes = 4'000'000;
static constexpr double kFlops = 2.0 * sizeof(Lanes) / sizeof(float) * kSums;

static float multiply_add(float factor) {
  Lanes sums[kSums], a, b;
  for (size_t i = 0; i < sizeof(Lanes) / sizeof(float); ++i) a[i] = factor, b[i] = 1 - factor;
  for (Lanes& sum : sums) sum = a;
  for (int64_t t = 0; t < kTimes; ++t) {
#pragma GCC unroll 12
    for (int i = 0; i < kSums; ++i) sums[i] = sums[i] * a + b;
  }
  Lanes all = sums[0];
  for (int i = 1; i < kSums; ++i) all += sums[i];
  return all[0];
}
static bool may_multiply() { return true; }
#endif

int main(int count, char** arguments) {
  const int threads = count > 1 ? std::atoi(arguments[1]) : 2, rounds = count > 2 ? std::atoi(arguments[2]) : 5;
  if (threads < 1 || rounds < 1) return std::fprintf(stderr, "usage: product_rate [THREADS] [ROUNDS]\n"), 2;
  if (!may_multiply()) return std::fprintf(stderr, "product_rate: the system refuses its tile unit\n"), 2;
  std::vector<double> rates;
  float seen = 0;
  for (int round = 0; round < rounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
#pragma omp parallel for num_threads(threads) schedule(static) reduction(+ : seen)
    for (int part = 0; part < threads; ++part) seen += multiply_add(0.5f + 0.01f * static_cast<float>(round));
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    rates.push_back(kFlops * static_cast<double>(kTimes) * threads / seconds * 1e-9);
  }
  std::sort(rates.begin(), rates.end());
  std::printf("%.2f %.2f\n", rates.back(), rates[rates.size() / 2]);
  return seen == 42 ? 3 : 0;  // the sums are used
}
