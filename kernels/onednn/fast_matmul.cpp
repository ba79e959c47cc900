#include "kernels/onednn/fast_matmul.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "base/error.h"
#include "kernels/cpu/matmul.h"
#include "kernels/cpu/tile_matmul.h"
#include "kernels/dispatch.h"
#include "kernels/onednn/onednn_matmul.h"

namespace tern {
namespace {

/// How our products compare with oneDNN 2.6.3's, as benchmarks/training/linear_products measures it: the ratio of rates, the middle one of
/// four shapes of a small model with 4,096 rows and of 512 × 2,048 × 2,048. Tiles: one thread of a Sapphire Rapids class core (dev/LOG.md,
/// 2026-11-21 and 22); the others: two of an Emerald Rapids class without tiles (2026-12-01). The choice is data and not a stopwatch at start, because
/// the bits of a training run hang on it.
struct Measured {
  DType dtype;
  Isa isa;
  LinearProduct product;
  double own_to_onednn;
};
constexpr Measured kMeasured[] = {
    {DType::bf16, Isa::amx_bf16, LinearProduct::forward, 1.26},
    {DType::bf16, Isa::amx_bf16, LinearProduct::input_gradient, 1.14},
    {DType::bf16, Isa::amx_bf16, LinearProduct::weight_gradient, 1.29},
    {DType::bf16, Isa::avx512_bf16, LinearProduct::forward, 0.98},
    {DType::bf16, Isa::avx512_bf16, LinearProduct::input_gradient, 0.97},
    {DType::bf16, Isa::avx512_bf16, LinearProduct::weight_gradient, 0.97},
    // Without vdpbf16ps that library emulates it.
    {DType::bf16, Isa::avx512, LinearProduct::forward, 4.6},
    {DType::bf16, Isa::avx512, LinearProduct::input_gradient, 4.7},
    {DType::bf16, Isa::avx512, LinearProduct::weight_gradient, 4.5},
    // f32 is the same code on every set with AVX-512.
    {DType::f32, Isa::avx512, LinearProduct::forward, 0.97},
    {DType::f32, Isa::avx512, LinearProduct::input_gradient, 0.94},
    {DType::f32, Isa::avx512, LinearProduct::weight_gradient, 0.90},
    {DType::f32, Isa::avx2, LinearProduct::forward, 0.96},
    {DType::f32, Isa::avx2, LinearProduct::input_gradient, 0.96},
    {DType::f32, Isa::avx2, LinearProduct::weight_gradient, 0.89},
};

/// 0 where nothing was measured: then oneDNN multiplies.
double own_to_onednn(DType dtype, LinearProduct product) {
  const bool as_avx512 = active_isa() == Isa::avx512_vnni || (dtype == DType::f32 && active_isa() > Isa::avx512);
  const Isa isa = as_avx512 ? Isa::avx512 : active_isa();
  for (const Measured& m : kMeasured)
    if (m.dtype == dtype && m.isa == isa && m.product == product) return m.own_to_onednn;
  return 0;
}

bool onednn_multiplies(DType dtype, LinearProduct product) {
  return own_to_onednn(dtype, product) < 1 && onednn_can(dtype);
}

/// A weight gradient in f32 on avx2 of which oneDNN 2.6.3 reads dyᵀ as it lies (its rule: where n or k is small), while columns of dy lie a
/// multiple of 2 KiB apart and so meet in few lines of the cache: 35 to 60 GFLOP/s of one thread of an EPYC for 50 to 78 of own kernels (those of
/// 2026-11-22, which were slower than today's).
bool meets_in_few_lines(DType dtype, LinearProduct product, int64_t n, int64_t k) {
  return dtype == DType::f32 && product == LinearProduct::weight_gradient && active_isa() == Isa::avx2 &&
         n % 512 == 0 && 1 / static_cast<double>(n) + 1 / static_cast<double>(k) >= 0.0038;
}
bool onednn_multiplies(DType dtype, LinearProduct product, int64_t n, int64_t k) {
  return onednn_multiplies(dtype, product) && !meets_in_few_lines(dtype, product, n, k);
}

constexpr LinearProduct kProducts[] = {LinearProduct::forward, LinearProduct::input_gradient,
                                       LinearProduct::weight_gradient};
constexpr const char* kNames[] = {"outputs", "input gradients", "weight gradients"};

std::string library_name() { return fmt::format("oneDNN {}", onednn_version()); }
std::string own_name(DType dtype) {
  return has_tiles(active_isa()) && dtype == DType::bf16 ? "own kernels on tiles" : "own kernels";
}

/// Who multiplies in this type; where the products part, who which.
std::string multipliers(DType dtype) {
  std::string library, own;
  for (const LinearProduct product : kProducts) {
    std::string& of = onednn_multiplies(dtype, product) ? library : own;
    of += fmt::format("{}{}", of.empty() ? "" : " and ", kNames[static_cast<int>(product)]);
  }
  if (own.empty()) return library_name();
  if (library.empty()) return own_name(dtype);
  return fmt::format("{} ({}), {} ({})", library_name(), library, own_name(dtype), own);
}

std::string describe() {
  if (onednn_version().empty()) return "own kernels";
  if (!onednn_can(DType::f32) && !onednn_can(DType::bf16))
    return fmt::format(
        "own kernels: {} {}", library_name(),
        onednn_is_held() ? "has none for this processor" : fmt::format("cannot be held to {}", name_of(active_isa())));
  const std::string f32 = multipliers(DType::f32), half = multipliers(DType::bf16);
  if (f32 == half) return f32;
  return fmt::format(
      "{} for f32; {} for bf16{}", f32, half,
      onednn_can(DType::bf16) ? "" : fmt::format(", which oneDNN does not have on {}", name_of(active_isa())));
}

template <class T>
constexpr DType kType = DTypeOf<T>::value;

void check(const char* what, size_t have, int64_t rows, int64_t columns) {
  TERN_CHECK(rows >= 0 && columns >= 0 && have == static_cast<size_t>(rows * columns), "{}: {} elements for {} × {}",
             what, have, rows, columns);
}

/// The most that `bytes_of` says of what the calls below may ask for.
int64_t most_of_variants(LinearProduct product, DType dtype, int64_t m, int64_t n, int64_t k,
                         int64_t (*bytes_of)(const OnednnProduct&)) {
  int64_t most = 0;
  const auto ask = [&](DType out, bool bias, bool add) {
    most = std::max(most, bytes_of({product, dtype, out, bias, add, m, n, k}));
  };
  switch (product) {
    case LinearProduct::forward:
      for (const bool bias : {false, true}) {
        ask(dtype, bias, false);
        if (dtype != DType::f32) ask(DType::f32, bias, false);
      }
      break;
    case LinearProduct::input_gradient:
      for (const bool add : {false, true}) ask(dtype, false, add);
      break;
    case LinearProduct::weight_gradient:
      ask(DType::f32, false, true);
      break;
  }
  return most;
}

}  // namespace

void load_fast_matmul() { load_onednn(); }

std::string_view fast_matmul_name() {
  static std::map<Isa, std::string> names;  // by set, as tests switch them
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  std::string& name = names[active_isa()];
  if (name.empty()) name = describe();
  return name;
}

std::string fast_matmul_name(DType dtype) {
  return onednn_multiplies(dtype, LinearProduct::forward) ? library_name() : own_name(dtype);
}

bool is_by_onednn(LinearProduct product, DType dtype) { return onednn_multiplies(dtype, product); }

std::vector<MatmulChoice> fast_matmul_choices() {
  std::vector<MatmulChoice> choices;
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const LinearProduct product : kProducts) {
      const double ratio = own_to_onednn(dtype, product);
      const bool library = onednn_multiplies(dtype, product);
      const std::string reason =
          !onednn_can(dtype) ? ""
          : ratio > 0        ? fmt::format(" (own : oneDNN measured as {:.2f}{})", ratio,
                                    meets_in_few_lines(dtype, product, 512, 1)
                                               ? "; own kernels where n is a multiple of 512 and n or k is small"
                                               : "")
                             : " (not measured against own kernels)";
      choices.push_back(
          {dtype, product, library, ratio,
           fmt::format("{} {}: {}{}", name_of(dtype), kNames[static_cast<int>(product)],
                       library ? fmt::format("oneDNN on {}", onednn_instructions()) : "own kernels", reason)});
    }
  return choices;
}

int64_t fast_scratch_bytes(LinearProduct product, DType dtype, int64_t m, int64_t n, int64_t k) {
  if (m == 0 || n == 0 || k == 0) return 0;
  if (!onednn_multiplies(dtype, product, n, k)) return 0;
  return most_of_variants(product, dtype, m, n, k, onednn_scratch_bytes);
}

int64_t fast_library_bytes(LinearProduct product, DType dtype, int64_t m, int64_t n, int64_t k) {
  if (m == 0 || n == 0 || k == 0 || !onednn_multiplies(dtype, product, n, k)) return 0;
  return most_of_variants(product, dtype, m, n, k, onednn_hidden_bytes);
}

ThreadBytes fast_thread_bytes(LinearProduct product, DType dtype, int64_t m, int64_t n, int64_t k) {
  if (onednn_multiplies(dtype, product, n, k)) return {};
  switch (product) {
    case LinearProduct::forward:
      return nt_thread_bytes(dtype, m, n, k);
    case LinearProduct::input_gradient:
      return nn_thread_bytes(dtype, m, n, k);
    case LinearProduct::weight_gradient:
      return tn_thread_bytes(dtype, m, n, k);
  }
  return {};
}

template <class T, class Out>
void multiply_fast(std::span<const T> x, std::span<const T> w, std::span<const T> bias, int64_t m, int64_t n, int64_t k,
                   std::span<Out> y, std::span<std::byte> scratch) {
  check("multiply_fast: x", x.size(), m, k);
  check("multiply_fast: w", w.size(), n, k);
  check("multiply_fast: y", y.size(), m, n);
  if (!bias.empty()) check("multiply_fast: bias", bias.size(), 1, n);
  if (m == 0 || n == 0) return;
  if (k > 0 && onednn_multiplies(kType<T>, LinearProduct::forward))
    return onednn_multiply({LinearProduct::forward, kType<T>, kType<Out>, !bias.empty(), false, m, n, k}, x.data(),
                           w.data(), bias.data(), y.data(), scratch);
  multiply_nt<T, Out>(x, w, bias, m, n, k, false, y);
}

template <class T>
void multiply_fast_input_gradient(std::span<const T> dy, std::span<const T> w, int64_t m, int64_t n, int64_t k,
                                  bool add, std::span<T> dx, std::span<std::byte> scratch) {
  check("multiply_fast_input_gradient: dy", dy.size(), m, n);
  check("multiply_fast_input_gradient: w", w.size(), n, k);
  check("multiply_fast_input_gradient: dx", dx.size(), m, k);
  if (m == 0 || k == 0) return;
  if (n > 0 && onednn_multiplies(kType<T>, LinearProduct::input_gradient))
    return onednn_multiply({LinearProduct::input_gradient, kType<T>, kType<T>, false, add, m, n, k}, dy.data(),
                           w.data(), nullptr, dx.data(), scratch);
  multiply_nn<T>(dy, w, m, n, k, add, dx);
}

template <class T>
void multiply_fast_weight_gradient(std::span<const T> dy, std::span<const T> x, int64_t m, int64_t n, int64_t k,
                                   std::span<float> dw, std::span<std::byte> scratch) {
  check("multiply_fast_weight_gradient: dy", dy.size(), m, n);
  check("multiply_fast_weight_gradient: x", x.size(), m, k);
  check("multiply_fast_weight_gradient: dw", dw.size(), n, k);
  if (m == 0 || n == 0 || k == 0) return;
  if (onednn_multiplies(kType<T>, LinearProduct::weight_gradient, n, k))
    return onednn_multiply({LinearProduct::weight_gradient, kType<T>, DType::f32, false, true, m, n, k}, dy.data(),
                           x.data(), nullptr, dw.data(), scratch);
  multiply_tn<T>(dy, x, m, n, k, dw);
}

#define TERN_INSTANTIATE(T)                                                                                           \
  template void multiply_fast<T, float>(std::span<const T>, std::span<const T>, std::span<const T>, int64_t, int64_t, \
                                        int64_t, std::span<float>, std::span<std::byte>);                             \
  template void multiply_fast_input_gradient<T>(std::span<const T>, std::span<const T>, int64_t, int64_t, int64_t,    \
                                                bool, std::span<T>, std::span<std::byte>);                            \
  template void multiply_fast_weight_gradient<T>(std::span<const T>, std::span<const T>, int64_t, int64_t, int64_t,   \
                                                 std::span<float>, std::span<std::byte>);
TERN_INSTANTIATE(float)
TERN_INSTANTIATE(bf16)
template void multiply_fast<bf16, bf16>(std::span<const bf16>, std::span<const bf16>, std::span<const bf16>, int64_t,
                                        int64_t, int64_t, std::span<bf16>, std::span<std::byte>);

}  // namespace tern
