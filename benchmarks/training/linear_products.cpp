// Rates of a linear layer's three products by our own kernels and by oneDNN, in turns in one process: what the choice in
// kernels/onednn/fast_matmul.cpp is made of. The set of instructions is the active one (TERN_ISA).
//
//   linear_products [--type bf16|f32] [--threads N] [--rounds N]
//
// Shapes (m, n, k) of y = x·wᵀ: the layers of benchmarks/training/make_case.py with their 4,096 rows, and one of a larger model. Each
// figure is the middle one of the rounds; the last line of a product is the middle of its shapes' ratios.

#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/rng.h"
#include "kernels/cpu/matmul.h"
#include "kernels/dispatch.h"
#include "kernels/onednn/fast_matmul.h"
#include "kernels/onednn/onednn_matmul.h"

namespace tern {
namespace {

struct Shape {
  int64_t m, n, k;
};
constexpr Shape kShapes[] = {
    {4096, 864, 288}, {4096, 288, 288}, {4096, 1536, 288}, {4096, 288, 768}, {512, 2048, 2048}};
constexpr LinearProduct kProducts[] = {LinearProduct::forward, LinearProduct::input_gradient,
                                       LinearProduct::weight_gradient};
constexpr const char* kNames[] = {"forward", "input gradient", "weight gradient"};

double middle(std::vector<double> v) {
  std::ranges::sort(v);
  return v[v.size() / 2];
}

template <class T>
std::vector<T> numbers(int64_t count, uint64_t seed) {
  std::vector<T> v(static_cast<size_t>(count));
  for (size_t i = 0; i < v.size(); ++i) {
    const float x = static_cast<float>(static_cast<int16_t>(random_u64({seed, 0}, i) & 0xffff)) * 0x1p-15f;
    if constexpr (sizeof(T) == 2)
      v[i] = to_bf16(x);
    else
      v[i] = x;
  }
  return v;
}

template <class T>
struct Operands {
  std::vector<T> x, w, dy, y, dx;
  std::vector<float> dw;
  std::vector<std::byte> scratch;
};
template <class T>
Operands<T> make_operands(const Shape& s) {
  constexpr DType kType = DTypeOf<T>::value;
  int64_t scratch = 0;
  for (const LinearProduct product : kProducts)
    scratch = std::max(
        scratch, onednn_scratch_bytes({product, kType, product == LinearProduct::weight_gradient ? DType::f32 : kType,
                                       false, product == LinearProduct::weight_gradient, s.m, s.n, s.k}));
  return {numbers<T>(s.m * s.k, 1),
          numbers<T>(s.n * s.k, 2),
          numbers<T>(s.m * s.n, 3),
          std::vector<T>(static_cast<size_t>(s.m * s.n)),
          std::vector<T>(static_cast<size_t>(s.m * s.k)),
          std::vector<float>(static_cast<size_t>(s.n * s.k)),
          std::vector<std::byte>(static_cast<size_t>(scratch))};
}

template <class T>
void by_onednn(LinearProduct product, const Shape& s, Operands<T>& o) {
  constexpr DType kType = DTypeOf<T>::value;
  const auto run = [&](DType out, bool add, const void* a, const void* b, void* to) {
    onednn_multiply({product, kType, out, false, add, s.m, s.n, s.k}, a, b, nullptr, to, o.scratch);
  };
  if (product == LinearProduct::forward) return run(kType, false, o.x.data(), o.w.data(), o.y.data());
  if (product == LinearProduct::input_gradient) return run(kType, false, o.dy.data(), o.w.data(), o.dx.data());
  run(DType::f32, true, o.dy.data(), o.x.data(), o.dw.data());
}

template <class T>
void by_own(LinearProduct product, const Shape& s, Operands<T>& o) {
  if (product == LinearProduct::input_gradient) return multiply_nn<T>(o.dy, o.w, s.m, s.n, s.k, false, o.dx);
  if (product == LinearProduct::weight_gradient) return multiply_tn<T>(o.dy, o.x, s.m, s.n, s.k, o.dw);
  multiply_nt<T, T>(o.x, o.w, {}, s.m, s.n, s.k, false, o.y);
}

template <class T>
void compare(int64_t rounds) {
  for (const LinearProduct product : kProducts) {
    std::vector<double> ratios;
    for (const Shape& s : kShapes) {
      Operands<T> o = make_operands<T>(s);
      const double flops = 2.0 * static_cast<double>(s.m * s.n * s.k);
      const int64_t times = std::max<int64_t>(1, static_cast<int64_t>(4e9 / flops));
      std::vector<double> taken[2];
      for (int64_t round = 0; round <= rounds; ++round)  // the first warms up
        for (int who = 0; who < 2; ++who) {
          const int64_t begin_ns = real_clock().now_ns();
          for (int64_t i = 0; i < times; ++i) who ? by_own(product, s, o) : by_onednn(product, s, o);
          if (round > 0)
            taken[who].push_back(seconds_between(begin_ns, real_clock().now_ns()) / static_cast<double>(times));
        }
      ratios.push_back(middle(taken[0]) / middle(taken[1]));
      fmt::print("{:15} {:5} × {:4} × {:4}  oneDNN {:6.1f}  own {:6.1f} GFLOP/s  own : oneDNN {:.2f}\n",
                 kNames[static_cast<int>(product)], s.m, s.n, s.k, flops / middle(taken[0]) * 1e-9,
                 flops / middle(taken[1]) * 1e-9, ratios.back());
    }
    fmt::print("{:15} middle of the shapes: {:.2f}\n", kNames[static_cast<int>(product)], middle(ratios));
  }
}

int main_with(const std::string& type, int threads, int64_t rounds) {
  omp_set_num_threads(threads);
  const DType dtype = type == "f32" ? DType::f32 : DType::bf16;
  if (!onednn_can(dtype)) {
    fmt::print(stderr, "linear_products: oneDNN has no {} on {}: nothing to compare\n", type, name_of(active_isa()));
    return 1;
  }
  fmt::print("{} on {}, {} threads, {} rounds; oneDNN {} on {}\n", type, name_of(active_isa()), threads, rounds,
             onednn_version(), onednn_instructions());
  dtype == DType::f32 ? compare<float>(rounds) : compare<bf16>(rounds);
  return 0;
}

}  // namespace
}  // namespace tern

int main(int argc, char** argv) {
  std::string type = "bf16";
  int threads = omp_get_max_threads();
  int64_t rounds = 5;
  for (int i = 1; i < argc; i += 2) {
    const std::string name = argv[i], value = i + 1 < argc ? argv[i + 1] : "";
    if (name == "--type" && (value == "bf16" || value == "f32")) {
      type = value;
    } else if ((name == "--threads" || name == "--rounds") && std::atoi(value.c_str()) >= 1) {
      const int number = std::atoi(value.c_str());
      if (name == "--threads")
        threads = number;
      else
        rounds = number;
    } else {
      fmt::print(stderr, "linear_products: {} {}: expected --type bf16 or f32, --threads N or --rounds N\n", name,
                 value);
      return 2;
    }
  }
  return tern::main_with(type, threads, rounds);
}
