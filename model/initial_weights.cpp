#include "model/initial_weights.h"

#include <cmath>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/rng.h"
#include "kernels/lapack/svd.h"
#include "model/number.h"
#include "model/ops.h"
#include "model/visit_weights.h"

namespace tern {

void initialize_weights(const ModelSpec& spec, ModelWeights& weights, uint64_t seed) {
  for_each_fixed(spec, weights, [](const ParameterInfo&, Tensor& t) { t.fill_zero(); });
  for_each_parameter(spec, weights, [&](const ParameterInfo& info, Tensor& t) {
    if (t.empty()) return;  // another rank's
    // A matrix that ends a residual branch.
    const bool scaled = spec.scaled_residual_init &&
                        (info.name.ends_with("attention.out.weight") || info.name.ends_with("mlp.down.weight"));
    const double std = spec.initializer_range / (scaled ? std::sqrt(2.0 * static_cast<double>(spec.layers)) : 1.0);
    const RngKey key{seed, hash_name(info.name)};
    const bool is_matrix = info.shape.rank == 2;
    const double constant = info.initial;
    ops::by_dtype(t.dtype(), [&]<class T>() {
      const std::span<T> w = t.span<T>();
      const auto count = static_cast<int64_t>(w.size());
#pragma omp parallel for
      for (int64_t i = 0; i < count; ++i) {
        const double value = is_matrix ? std * random_normal(key, static_cast<uint64_t>(i)) : constant;
        w[static_cast<size_t>(i)] = number_as<T>(value);
      }
    });
  });
}

std::string_view name_of(AdapterInit init) {
  switch (init) {
    case AdapterInit::kaiming:
      return "true";
    case AdapterInit::gaussian:
      return "gaussian";
    case AdapterInit::orthogonal:
      return "orthogonal";
    case AdapterInit::pissa:
      return "pissa";
    case AdapterInit::olora:
      return "olora";
  }
  return "?";
}

namespace {

// A (rank, in) or B (out, rank), as PEFT's init_lora_weights = "orthogonal": a tenth of normal numbers times every other row of one random
// orthogonal matrix (rank, rank), A those that B does not have.
void draw_orthogonal(const ParameterInfo& info, uint64_t seed, const Tensor& t) {
  const bool is_a = info.name.ends_with(".a");
  const int64_t rank = info.shape[is_a ? 0 : 1], others = info.shape[is_a ? 1 : 0];
  if (rank % 2 != 0)
    throw Error(ErrorKind::usage, "--init orthogonal: rank {} is odd; half of its directions are A's, half B's", rank);
  const RngKey basis{seed, hash_name(info.name.substr(0, info.name.size() - 1))}, key{seed, hash_name(info.name)};
  std::vector<double> square(static_cast<size_t>(rank * rank));
  for (size_t i = 0; i < square.size(); ++i) square[i] = random_normal(basis, i);
  const std::vector<double> q = thin_qr(std::move(square), rank, rank).q;
  ops::by_dtype(t.dtype(), [&]<class T>() {
    const std::span<T> to = t.span<T>();
    for (int64_t j = 0; j < rank; ++j)
      for (int64_t k = 0; k < others; ++k) {
        double sum = 0;
        for (int64_t i = 0; i < rank / 2; ++i)
          sum += random_normal(key, static_cast<uint64_t>(k * (rank / 2) + i)) *
                 q[static_cast<size_t>((2 * i + (is_a ? 0 : 1)) * rank + j)];
        to[static_cast<size_t>(is_a ? j * others + k : k * rank + j)] = number_as<T>(sum / 10);
      }
  });
}

}  // namespace

void initialize_adapters(const ModelSpec& spec, ModelWeights& weights, uint64_t seed, AdapterInit init) {
  for_each_adapter(spec, weights, [&](const ParameterInfo& info, Tensor& t) {
    t.fill_zero();
    if (init == AdapterInit::orthogonal && info.shape.rank == 2) return draw_orthogonal(info, seed, t);
    if (!info.name.ends_with(".a")) return;
    const RngKey key{seed, hash_name(info.name)};
    const double bound = 1 / std::sqrt(static_cast<double>(info.shape[1])),
                 deviation = 1 / static_cast<double>(info.shape[0]);
    ops::by_dtype(t.dtype(), [&]<class T>() {
      const std::span<T> a = t.span<T>();
      for (size_t i = 0; i < a.size(); ++i)
        a[i] = number_as<T>(init == AdapterInit::gaussian ? deviation * random_normal(key, i)
                                                          : bound * (2 * random_uniform(key, i) - 1));
    });
  });
}

}  // namespace tern
