#include "model/sparse_mlp.h"

#include <algorithm>

#include "base/error.h"
#include "model/ops.h"

namespace tern {
namespace {

float float_of(float x) { return x; }
float float_of(bf16 x) { return to_float(x); }

template <class T>
void add_neuron(float activation, const T* down_D, std::span<float> y_D) {
  for (size_t d = 0; d < y_D.size(); ++d) y_D[d] += activation * float_of(down_D[d]);
}

template <class T>
float bias_at(const Tensor& bias, int64_t i) {
  return bias.empty() ? 0.0f : float_of(bias.span<T>()[static_cast<size_t>(i)]);
}

// One row: n to f, both (D).
template <class T>
void sparse_row(const MlpWeights& w, std::span<const float> n, std::span<const int> neurons,
                std::span<const std::byte* const> records, std::vector<float>& sum, std::span<T> f) {
  TERN_CHECK(neurons.size() == records.size(), "sparse_mlp_forward: {} neurons, {} came", neurons.size(),
             records.size());
  std::ranges::fill(sum, 0.0f);
  for (size_t i = 0; i < neurons.size(); ++i) {
    const T* const up = reinterpret_cast<const T*>(records[i]);
    const float a = preactivation<T>({up, n.size()}, n, bias_at<T>(w.up.bias, neurons[i]));
    add_neuron(a <= 0 ? 0.0f : a, up + n.size(), sum);
  }
  for (size_t d = 0; d < f.size(); ++d) {
    const float y = w.down.bias.empty() ? sum[d] : sum[d] + bias_at<T>(w.down.bias, static_cast<int64_t>(d));
    if constexpr (std::is_same_v<T, bf16>)
      f[d] = to_bf16(y);
    else
      f[d] = y;
  }
}

template <class T>
void sparse_rows(const MlpSpec& u, const MlpWeights& w, std::span<const float> n, const ChooseNeurons& choose,
                 const BringNeurons& bring, const Tensor& f) {
  const auto D = static_cast<size_t>(u.width);
  std::vector<float> sum(D);
  for (size_t t = 0; t < static_cast<size_t>(f.rows()); ++t) {
    const std::span<const float> row = n.subspan(t * D, D);
    const std::span<const int> neurons = choose(row);
    sparse_row<T>(w, row, neurons, bring(neurons), sum, f.span<T>().subspan(t * D, D));
  }
}

template <class T>
std::vector<int> active_of(const Linear& up, std::span<const float> n) {
  const std::span<const T> rows = dense_rows(up).span<T>();
  std::vector<int> active;
  for (int64_t i = 0; i < up.out; ++i)
    if (!(preactivation<T>(rows.subspan(static_cast<size_t>(i) * n.size(), n.size()), n, bias_at<T>(up.bias, i)) <= 0))
      active.push_back(static_cast<int>(i));
  return active;
}

}  // namespace

template <class T>
float preactivation(std::span<const T> up, std::span<const float> n, float bias) {
  constexpr size_t kChains = 8;
  float part[kChains] = {};
  size_t i = 0;
  for (; i + kChains <= up.size(); i += kChains)
    for (size_t c = 0; c < kChains; ++c) part[c] += float_of(up[i + c]) * n[i + c];
  for (size_t c = 0; i < up.size(); ++i, ++c) part[c] += float_of(up[i]) * n[i];
  return ((part[0] + part[4]) + (part[2] + part[6])) + ((part[1] + part[5]) + (part[3] + part[7])) + bias;
}
template float preactivation<float>(std::span<const float>, std::span<const float>, float);
template float preactivation<bf16>(std::span<const bf16>, std::span<const float>, float);

std::vector<int> active_neurons(const Linear& up, std::span<const float> n) {
  return dense_rows(up).dtype() == DType::f32 ? active_of<float>(up, n) : active_of<bf16>(up, n);
}

std::vector<float> mlp_inputs(const MlpSpec& u, const NormWeights& w, const Tensor& x, const Compute& c) {
  const Tensor normed = c.arena.allocate(x.dtype(), x.shape(), MemoryClass::workspace);
  ops::norm(u.norm, w, x, normed, {}, {});
  std::vector<float> n(static_cast<size_t>(x.count()));
  if (x.dtype() == DType::f32)
    std::ranges::copy(normed.span<float>(), n.begin());
  else
    std::ranges::transform(normed.span<bf16>(), n.begin(), [](bf16 v) { return to_float(v); });
  return n;
}

Tensor sparse_mlp_forward(const MlpSpec& u, const MlpWeights& w, const Tensor& x, const ChooseNeurons& choose,
                          const BringNeurons& bring, const Compute& c) {
  TERN_CHECK(x.dtype() == DType::f32 || x.dtype() == DType::bf16, "sparse_mlp_forward: {}", name_of(x.dtype()));
  const std::vector<float> n = mlp_inputs(u, w.norm, x, c);
  const Tensor y = c.arena.allocate(x.dtype(), x.shape(), MemoryClass::activations);
  x.dtype() == DType::f32 ? sparse_rows<float>(u, w, n, choose, bring, y)
                          : sparse_rows<bf16>(u, w, n, choose, bring, y);
  if (u.join.multiplier != 1) ops::scale(u.join.multiplier, y);
  ops::add(x, y);
  return y;
}

}  // namespace tern
