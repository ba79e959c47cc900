// GFLOP/s of plain f32 multiply-adds whose operands lie in registers, by all threads at once: the limit of products in a batch on a
// machine without instructions for products of bf16 (with them the limit is higher). It shares no code with tern.
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

static constexpr int kSums =
    12;  // independent ones: the latency of an instruction is hidden, and none leaves its register
static constexpr int64_t kTimes = 4'000'000;

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

int main(int count, char** arguments) {
  const int threads = count > 1 ? std::atoi(arguments[1]) : 2, rounds = count > 2 ? std::atoi(arguments[2]) : 5;
  if (threads < 1 || rounds < 1) return std::fprintf(stderr, "usage: product_rate [THREADS] [ROUNDS]\n"), 2;
  std::vector<double> rates;
  float seen = 0;
  for (int round = 0; round < rounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
#pragma omp parallel for num_threads(threads) schedule(static) reduction(+ : seen)
    for (int part = 0; part < threads; ++part) seen += multiply_add(0.5f + 0.01f * static_cast<float>(round));
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    constexpr double kLanes = sizeof(Lanes) / sizeof(float);
    rates.push_back(2 * kLanes * kSums * static_cast<double>(kTimes) * threads / seconds * 1e-9);
  }
  std::sort(rates.begin(), rates.end());
  std::printf("%.2f %.2f\n", rates.back(), rates[rates.size() / 2]);
  return seen == 42 ? 3 : 0;  // the sums are used
}
