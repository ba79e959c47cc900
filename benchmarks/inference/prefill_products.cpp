// The matrix products of one prompt, layer after layer, by oneDNN with weights that it packed as it likes, and by our
// own exact product on plain weights: the same sequence, in turn, in one process, on the same numbers. What a prompt
// costs beside them is for `tern generate --json` to say.
//
//   prefill_products [--tokens N] [--layers N] [--rounds N] [--threads N] [--seed N]
//
// Before a time is taken, every product of every layer is compared: each of the two errs by at most γ_k·Σ|x·w| in its
// sum of k products (Higham, any order; Σ|x·w| <= ‖x‖·‖w‖) and rounds once to bf16. A difference beyond that ends the
// run with exit status 1.
//
// Shapes are those of a Llama of 1.1 billion parameters (width 2,048, 32 heads, 4 key-value heads, hidden 5,632).

#include <fmt/format.h>
#include <omp.h>
#include <oneapi/dnnl/dnnl.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/rng.h"
#include "kernels/cpu/matmul.h"
#include "tensor/arena.h"

namespace tern {
namespace {

struct LayerProduct {
  int64_t n, k;
};
constexpr LayerProduct kProducts[] = {{2560, 2048}, {2048, 2048}, {11264, 2048}, {2048, 5632}};

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }
void require(dnnl_status_t status, const char* what) {
  TERN_CHECK(status == dnnl_success, "oneDNN: {} gave status {}", what, static_cast<int>(status));
}
dnnl_memory_t memory(const dnnl_memory_desc_t& d, dnnl_engine_t engine, void* at) {
  dnnl_memory_t m = nullptr;
  require(dnnl_memory_create(&m, &d, engine, at), "a memory");
  return m;
}
double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

/// One product of every layer: x (m, k), a weight (n, k) each, and the result of who ran last.
struct Operands {
  Tensor x, y;
  std::vector<Tensor> weights;
};

/// Uniform in [-1, 1), rounded: an element is what its place in its tensor says, whoever fills it.
void fill(const Tensor& t, RngKey key) {
  const std::span<bf16> values = t.span<bf16>();
#pragma omp parallel for schedule(static)
  for (size_t i = 0; i < values.size(); i += 4) {
    const uint64_t bits = random_u64(key, i / 4);
    for (size_t j = i; j < std::min(i + 4, values.size()); ++j) {
      const auto part = static_cast<int16_t>(bits >> (16 * (j - i)));
      values[j] = to_bf16(static_cast<float>(part) * 0x1p-15f);
    }
  }
}

Operands make_operands(int64_t m, const LayerProduct& p, int64_t layers, uint64_t seed, Arena& arena) {
  const std::string name = fmt::format("{}x{}", p.n, p.k);
  Operands o{.x = arena.allocate(DType::bf16, {m, p.k}, MemoryClass::activations),
             .y = arena.allocate(DType::bf16, {m, p.n}, MemoryClass::activations),
             .weights = {}};
  fill(o.x, {seed, hash_name("x" + name)});
  for (int64_t i = 0; i < layers; ++i) {
    o.weights.push_back(arena.allocate(DType::bf16, {p.n, p.k}, MemoryClass::weights));
    fill(o.weights.back(), {seed, hash_name(fmt::format("w{} layer {}", name, i))});
  }
  return o;
}

std::vector<double> row_norms(const Tensor& t, int64_t rows) {
  const std::span<const bf16> values = t.span<bf16>();
  const size_t width = values.size() / static_cast<size_t>(rows);
  std::vector<double> norms(static_cast<size_t>(rows));
#pragma omp parallel for schedule(static)
  for (size_t r = 0; r < norms.size(); ++r) {
    double sum = 0;
    for (size_t i = 0; i < width; ++i) sum += std::pow(to_float(values[r * width + i]), 2);
    norms[r] = std::sqrt(sum);
  }
  return norms;
}

/// The largest difference as a share of what rounding allows there; infinite where one of them is no number.
double worst_difference(std::span<const bf16> one, std::span<const bf16> other, const std::vector<double>& x_norms,
                        const std::vector<double>& w_norms, int64_t k) {
  const double ku = static_cast<double>(k) * 0x1p-24, gamma = ku / (1 - ku), round = 0x1p-8;
  const size_t n = w_norms.size();
  double worst = 0;
#pragma omp parallel for schedule(static) reduction(max : worst)
  for (size_t r = 0; r < x_norms.size(); ++r)
    for (size_t c = 0; c < n; ++c) {
      const double a = to_float(one[r * n + c]), b = to_float(other[r * n + c]);
      const double allowed = 2 * gamma * x_norms[r] * w_norms[c] + round * (std::abs(a) + std::abs(b));
      const double share = std::abs(a - b) / allowed;
      worst = std::max(worst, share >= 0 ? share : HUGE_VAL);  // NaN is no share
    }
  return worst;
}

/// oneDNN's kernel of one shape and its packed weights of every layer. Handles live as long as the program.
class Packed {
 public:
  Packed(dnnl_engine_t engine, dnnl_stream_t stream, const Operands& o, LayerProduct p, Arena& arena)
      : stream_(stream) {
    const int64_t m = o.x.rows();
    const dnnl_dims_t x = {m, p.k}, w = {p.k, p.n}, y = {m, p.n}, plain = {1, p.k};
    dnnl_memory_desc_t xd, wd, yd, from;
    require(dnnl_memory_desc_init_by_tag(&xd, 2, x, dnnl_bf16, dnnl_ab), "x");
    require(dnnl_memory_desc_init_by_tag(&wd, 2, w, dnnl_bf16, dnnl_format_tag_any), "w");
    require(dnnl_memory_desc_init_by_tag(&yd, 2, y, dnnl_bf16, dnnl_ab), "y");
    require(dnnl_memory_desc_init_by_strides(&from, 2, w, dnnl_bf16, plain), "plain w");
    dnnl_matmul_desc_t desc;
    require(dnnl_matmul_desc_init(&desc, &xd, &wd, nullptr, &yd), "a product");
    dnnl_primitive_desc_t made = nullptr;
    require(dnnl_primitive_desc_create(&made, &desc, nullptr, engine, nullptr), "choosing a kernel");
    require(dnnl_primitive_create(&primitive_, made), "a kernel");
    const dnnl_memory_desc_t* packed = dnnl_primitive_desc_query_md(made, dnnl_query_weights_md, 0);
    dnnl_primitive_desc_t order_desc = nullptr;
    dnnl_primitive_t order = nullptr;
    require(dnnl_reorder_primitive_desc_create(&order_desc, &from, engine, packed, engine, nullptr), "reordering");
    require(dnnl_primitive_create(&order, order_desc), "reordering");
    for (const Tensor& plain_w : o.weights) {
      tensors_.push_back(arena.bytes(static_cast<int64_t>(dnnl_memory_desc_get_size(packed)), MemoryClass::weights));
      weights_.push_back(memory(*packed, engine, tensors_.back().data()));
      const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_FROM, memory(from, engine, plain_w.data())},
                                           {DNNL_ARG_TO, weights_.back()}};
      require(dnnl_primitive_execute(order, stream, 2, arguments), "packing");
    }
    x_ = memory(xd, engine, o.x.data());
    y_ = memory(yd, engine, o.y.data());
    require(dnnl_stream_wait(stream), "waiting");
  }
  void run(int64_t layer) const {
    const dnnl_exec_arg_t arguments[] = {
        {DNNL_ARG_SRC, x_}, {DNNL_ARG_WEIGHTS, weights_[static_cast<size_t>(layer)]}, {DNNL_ARG_DST, y_}};
    require(dnnl_primitive_execute(primitive_, stream_, 3, arguments), "a product");
  }

 private:
  dnnl_stream_t stream_;
  dnnl_primitive_t primitive_ = nullptr;
  std::vector<Tensor> tensors_;
  std::vector<dnnl_memory_t> weights_;
  dnnl_memory_t x_ = nullptr, y_ = nullptr;
};

void run_ours(const Operands& o, const LayerProduct& p, int64_t layer) {
  const WeightRows<bf16> w{o.weights[static_cast<size_t>(layer)].span<bf16>().data(), p.n};
  multiply_plain<bf16, bf16>(o.x.span<bf16>(), {&w, 1}, {}, o.x.rows(), p.n, p.k, false, o.y.span<bf16>());
}

/// The two results of each layer's product; whether they agree.
bool agree(const Operands& o, const LayerProduct& p, const Packed& theirs) {
  const std::vector<double> x_norms = row_norms(o.x, o.x.rows());
  double worst = 0;
  for (size_t layer = 0; layer < o.weights.size(); ++layer) {
    const auto poison = [&] { std::ranges::fill(o.y.span<bf16>(), to_bf16(NAN)); };
    poison();
    theirs.run(static_cast<int64_t>(layer));
    const std::span<const bf16> written = o.y.span<bf16>();
    const std::vector<bf16> one(written.begin(), written.end());
    poison();
    run_ours(o, p, static_cast<int64_t>(layer));
    worst = std::max(worst, worst_difference(one, written, x_norms, row_norms(o.weights[layer], p.n), p.k));
  }
  fmt::print("{:14} largest difference of {} values: {:.3f} of what rounding allows{}\n",
             fmt::format("{} x {}", p.n, p.k), o.y.count() * static_cast<int64_t>(o.weights.size()), worst,
             worst <= 1 ? "" : ": the two differ");
  return worst <= 1;
}

int main_with(std::map<std::string, int64_t> options) {
  const int64_t m = options["--tokens"], layers = options["--layers"], rounds = options["--rounds"];
  omp_set_num_threads(static_cast<int>(options["--threads"]));
  Arena arena;
  dnnl_engine_t engine = nullptr;
  dnnl_stream_t stream = nullptr;
  require(dnnl_engine_create(&engine, dnnl_cpu, 0), "the engine");
  require(dnnl_stream_create(&stream, engine, dnnl_stream_default_flags), "a stream");
  TERN_CHECK(reads_plain_weights(DType::bf16), "this machine has no tile unit: nothing to compare");

  std::vector<Operands> operands;
  std::vector<Packed> theirs;
  double flops = 0;
  bool same = true;
  for (const LayerProduct& p : kProducts) {
    operands.push_back(make_operands(m, p, layers, static_cast<uint64_t>(options["--seed"]), arena));
    theirs.emplace_back(engine, stream, operands.back(), p, arena);
    same = agree(operands.back(), p, theirs.back()) && same;
    flops += 2.0 * static_cast<double>(m * p.n * p.k * layers);
  }
  if (!same) return 1;
  constexpr size_t kCount = std::size(kProducts);
  std::vector<double> times[2], by_shape[2][kCount];
  for (int64_t r = 0; r <= rounds; ++r)  // the first warms up
    for (int who = 0; who < 2; ++who) {
      double part[kCount] = {};
      for (int64_t layer = 0; layer < layers; ++layer)
        for (size_t j = 0; j < kCount; ++j) {
          const double begin = seconds();
          who ? run_ours(operands[j], kProducts[j], layer) : theirs[j].run(layer);
          part[j] += seconds() - begin;
        }
      if (r == 0) continue;
      double all = 0;
      for (size_t j = 0; j < kCount; ++j) by_shape[who][j].push_back(part[j]), all += part[j];
      times[who].push_back(all);
    }
  fmt::print("{} tokens, {} layers, {} threads, {} rounds; medians\n", m, layers, options["--threads"], rounds);
  const auto line = [](const std::string& name, double f, const std::vector<double>& one,
                       const std::vector<double>& own) {
    fmt::print("{:14} oneDNN packed {:7.1f} GFLOP/s   own, plain weights {:7.1f} GFLOP/s   own : oneDNN {:.2f}\n", name,
               f / median(one) * 1e-9, f / median(own) * 1e-9, median(one) / median(own));
  };
  for (size_t j = 0; j < kCount; ++j)
    line(fmt::format("{} x {}", kProducts[j].n, kProducts[j].k),
         2.0 * static_cast<double>(m * kProducts[j].n * kProducts[j].k * layers), by_shape[0][j], by_shape[1][j]);
  line("all", flops, times[0], times[1]);
  fmt::print("all products of the prompt: oneDNN {:.3f} s, own {:.3f} s\n", median(times[0]), median(times[1]));
  return 0;
}

}  // namespace
}  // namespace tern

int main(int argc, char** argv) {
  std::map<std::string, int64_t> options = {
      {"--tokens", 512}, {"--layers", 22}, {"--rounds", 5}, {"--threads", omp_get_max_threads()}, {"--seed", 1}};
  for (int i = 1; i < argc; i += 2) {
    const auto found = options.find(argv[i]);
    const int64_t value = i + 1 < argc ? std::atoll(argv[i + 1]) : 0;
    if (found == options.end() || value < 1) {
      fmt::print(stderr,
                 "prefill_products: {}: expected --tokens, --layers, --rounds, --threads or --seed and a number\n",
                 argv[i]);
      return 2;
    }
    found->second = value;
  }
  return tern::main_with(options);
}
