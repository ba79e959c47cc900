#include "kernels/isa_selfcheck.h"

#include <fmt/format.h>
#include <omp.h>

#include <cmath>
#include <vector>

#include "base/dtype.h"
#include "kernels/cpu/matmul_table.h"
#include "kernels/ref/matmul_ref.h"

namespace tern {
namespace {

constexpr int64_t kM = 8, kN = 70, kK = 37;  // full and partial tiles, a partial panel, an odd pair

/// Small whole numbers over 8: products and sums are exact in f32 and in bf16 inputs, so any order gives the same bits.
double value(int64_t i, int64_t salt) { return static_cast<double>((i * 7 + salt * 5) % 23 - 11) / 8; }

template <class T>
T make(double x);
template <>
float make(double x) {
  return static_cast<float>(x);
}
template <>
bf16 make(double x) {
  return to_bf16(static_cast<float>(x));
}

template <class T>
std::string compare(const MatmulTable& t, void (*pack)(const T*, int64_t, int64_t, T*),
                    void (*exact)(const T*, const T*, const T*, int64_t, int64_t, int64_t, bool, float*),
                    void (*tn)(const T*, const T*, int64_t, int64_t, int64_t, float*), const char* name) {
  std::vector<double> x(kM * kK), w(kN * kK), want(kM * kN, 0.5);
  std::vector<T> x_T(x.size()), w_T(w.size());
  for (size_t i = 0; i < x.size(); ++i) x_T[i] = make<T>(x[i] = value(static_cast<int64_t>(i), 1));
  for (size_t i = 0; i < w.size(); ++i) w_T[i] = make<T>(w[i] = value(static_cast<int64_t>(i), 2));
  multiply_ref(x, w, {}, kM, kN, kK, true, want);
  std::vector<T> packed((kN + t.panel) * (kK + 1));
  std::vector<float> got(want.size(), 0.5f);
  pack(w_T.data(), kN, kK, packed.data());
  exact(x_T.data(), packed.data(), nullptr, kM, kN, kK, true, got.data());
  for (size_t i = 0; i < got.size(); ++i)
    if (!(got[i] == want[i])) return fmt::format("{} product, element {}: got {}, want {}", name, i, got[i], want[i]);

  std::vector<double> dw(kK * kK, -0.25);
  std::vector<float> dw_got(dw.size(), -0.25f);
  multiply_tn_ref(x, x, kM, kK, kK, dw);
  tn(x_T.data(), x_T.data(), kM, kK, kK, dw_got.data());
  for (size_t i = 0; i < dw.size(); ++i)
    if (!(dw_got[i] == dw[i]))
      return fmt::format("{} weight gradient, element {}: got {}, want {}", name, i, dw_got[i], dw[i]);
  return "";
}

std::string compare_all(const MatmulTable& t) {
  std::string failure = compare<float>(t, t.pack_f32, t.exact_f32, t.tn_f32, "f32");
  if (failure.empty()) failure = compare<bf16>(t, t.pack_bf16, t.exact_bf16_to_f32, t.tn_bf16, "bf16");
  return failure;
}

}  // namespace

std::string self_test(Isa isa) {
  const MatmulTable& t = TERN_TABLE_OF(matmul_table, isa);
  std::vector<std::string> failures(omp_get_max_threads());
#pragma omp parallel
  {
    const std::string failure = compare_all(t);
    if (!failure.empty()) failures[omp_get_thread_num()] = fmt::format("thread {}: {}", omp_get_thread_num(), failure);
  }
  for (const std::string& f : failures)
    if (!f.empty()) return f;
  return "";
}

}  // namespace tern
