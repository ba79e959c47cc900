// The matrix products of one prompt, layer after layer, by oneDNN with weights that it packed as it likes, and by our
// own exact product on plain weights: the same sequence, in turn, in one process. What a prompt costs beside them is
// for `tern generate --json` to say.
//
//   prefill_products [--tokens N] [--layers N] [--rounds N] [--threads N]
//
// Shapes are those of a Llama of 1.1 billion parameters (width 2,048, 32 heads, 4 key-value heads, hidden 5,632).

#include <fmt/format.h>
#include <omp.h>
#include <oneapi/dnnl/dnnl.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
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

/// oneDNN's kernel of one shape and its packed weights of every layer. Handles live as long as the program.
class Packed {
 public:
  Packed(dnnl_engine_t engine, dnnl_stream_t stream, int64_t m, LayerProduct p, int64_t layers, Arena& arena)
      : stream_(stream) {
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
    const Tensor plain_w = arena.zeros(DType::bf16, {p.n, p.k}, MemoryClass::workspace);
    const dnnl_memory_t source = memory(from, engine, plain_w.data());
    for (int64_t i = 0; i < layers; ++i) {
      tensors_.push_back(arena.bytes(static_cast<int64_t>(dnnl_memory_desc_get_size(packed)), MemoryClass::weights));
      weights_.push_back(memory(*packed, engine, tensors_.back().data()));
      const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_FROM, source}, {DNNL_ARG_TO, weights_.back()}};
      require(dnnl_primitive_execute(order, stream, 2, arguments), "packing");
    }
    tensors_.push_back(arena.zeros(DType::bf16, {m, p.k}, MemoryClass::activations));
    x_ = memory(xd, engine, tensors_.back().data());
    tensors_.push_back(arena.zeros(DType::bf16, {m, p.n}, MemoryClass::activations));
    y_ = memory(yd, engine, tensors_.back().data());
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

int main_with(std::map<std::string, int64_t> options) {
  const int64_t m = options["--tokens"], layers = options["--layers"], rounds = options["--rounds"];
  omp_set_num_threads(static_cast<int>(options["--threads"]));
  Arena arena;
  dnnl_engine_t engine = nullptr;
  dnnl_stream_t stream = nullptr;
  require(dnnl_engine_create(&engine, dnnl_cpu, 0), "the engine");
  require(dnnl_stream_create(&stream, engine, dnnl_stream_default_flags), "a stream");
  TERN_CHECK(reads_plain_weights(DType::bf16), "this machine has no tile unit: nothing to compare");

  std::vector<Packed> theirs;
  std::vector<std::vector<Tensor>> ours;
  std::vector<Tensor> x, y;
  double flops = 0;
  for (const LayerProduct& p : kProducts) {
    theirs.emplace_back(engine, stream, m, p, layers, arena);
    ours.emplace_back();
    for (int64_t i = 0; i < layers; ++i)
      ours.back().push_back(arena.zeros(DType::bf16, {p.n, p.k}, MemoryClass::weights));
    x.push_back(arena.zeros(DType::bf16, {m, p.k}, MemoryClass::activations));
    y.push_back(arena.zeros(DType::bf16, {m, p.n}, MemoryClass::activations));
    flops += 2.0 * static_cast<double>(m * p.n * p.k * layers);
  }
  const auto run_theirs = [&](size_t j, int64_t layer) { theirs[j].run(layer); };
  const auto run_ours = [&](size_t j, int64_t layer) {
    const WeightRows<bf16> w{ours[j][static_cast<size_t>(layer)].span<bf16>().data(), kProducts[j].n};
    multiply_plain<bf16, bf16>(x[j].span<bf16>(), {&w, 1}, {}, m, kProducts[j].n, kProducts[j].k, false,
                               y[j].span<bf16>());
  };
  constexpr size_t kCount = std::size(kProducts);
  std::vector<double> times[2], by_shape[2][kCount];
  for (int64_t r = 0; r <= rounds; ++r)  // the first warms up
    for (int who = 0; who < 2; ++who) {
      double part[kCount] = {};
      for (int64_t layer = 0; layer < layers; ++layer)
        for (size_t j = 0; j < kCount; ++j) {
          const double begin = seconds();
          who ? run_ours(j, layer) : run_theirs(j, layer);
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
      {"--tokens", 512}, {"--layers", 22}, {"--rounds", 5}, {"--threads", omp_get_max_threads()}};
  for (int i = 1; i < argc; i += 2) {
    const auto found = options.find(argv[i]);
    const int64_t value = i + 1 < argc ? std::atoll(argv[i + 1]) : 0;
    if (found == options.end() || value < 1) {
      fmt::print(stderr, "prefill_products: {}: expected --tokens, --layers, --rounds or --threads and a number\n",
                 argv[i]);
      return 2;
    }
    found->second = value;
  }
  return tern::main_with(options);
}
