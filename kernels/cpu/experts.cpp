#include "kernels/cpu/experts.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "base/dtype.h"
#include "base/error.h"
#include "kernels/cpu/parallel.h"

namespace tern {

namespace {

double number(double x) { return x; }
float number(float x) { return x; }
float number(bf16 x) { return to_float(x); }

template <class T, class N>
T stored(N x) {
  if constexpr (std::is_same_v<T, bf16>)
    return to_bf16(x);
  else
    return static_cast<T>(x);
}

constexpr int64_t kOpsPerScore = 16;  // of a softmax and a choice, about

template <class N>
void softmax(std::span<N> z) {
  const N greatest = *std::max_element(z.begin(), z.end());
  N sum = 0;
  for (N& x : z) sum += x = std::exp(x - greatest);
  for (N& x : z) x /= sum;
}

// The places of the k greatest, ascending. `queue` is scratch.
template <class N>
void greatest(std::span<const N> values, std::vector<std::pair<N, int32_t>>& queue, std::span<int32_t> places) {
  queue.clear();
  for (size_t i = 0; i < values.size(); ++i) queue.emplace_back(values[i], static_cast<int32_t>(i));
  const auto before = [](const auto& a, const auto& b) {
    return (std::isnan(a.first) && !std::isnan(b.first)) || a.first > b.first;
  };
  const auto k = static_cast<std::ptrdiff_t>(places.size());
  if (places.size() * 64 <= values.size())
    std::partial_sort(queue.begin(), queue.begin() + k, queue.end(), before);
  else
    std::nth_element(queue.begin(), queue.begin() + k - 1, queue.end(), before);
  for (size_t i = 0; i < places.size(); ++i) places[i] = queue[i].second;
  std::sort(places.begin(), places.end());
}

// What is not in the best groups can not be chosen.
template <class N>
void keep_best_groups(const Router& router, std::span<N> choice, std::vector<std::pair<N, int32_t>>& queue) {
  const auto size = choice.size() / static_cast<size_t>(router.groups);
  std::vector<N> of_group;
  for (size_t at = 0; at < choice.size(); at += size) {
    const std::span<N> group = choice.subspan(at, size);
    const auto best = std::max_element(group.begin(), group.end());
    N score = *best;
    if (router.score == Score::sigmoid) {
      N second = -std::numeric_limits<N>::infinity();
      for (auto x = group.begin(); x != group.end(); ++x)
        if (x != best) second = std::max(second, *x);
      score += second;
    }
    of_group.push_back(score);
  }
  std::vector<int32_t> kept(static_cast<size_t>(router.top_groups));
  greatest<N>(of_group, queue, kept);
  for (size_t g = 0; g < of_group.size(); ++g)
    if (!std::binary_search(kept.begin(), kept.end(), static_cast<int32_t>(g)))
      std::fill_n(choice.begin() + static_cast<std::ptrdiff_t>(g * size), size, -std::numeric_limits<N>::infinity());
}

// DeepSeek-V3 adds 1e-20 to a sum of sigmoids that may all be 0.
template <class N>
N tiniest(const Router& router) {
  return router.score == Score::sigmoid ? static_cast<N>(1e-20) : N{0};
}

template <class X>
std::span<X> part(std::span<X> all, int64_t row, int64_t width) {
  return all.subspan(static_cast<size_t>(row * width), static_cast<size_t>(width));
}

}  // namespace

template <class N>
void choose_experts(const Router& router, std::span<const N> bias, std::span<N> scores, std::span<int32_t> chosen,
                    std::span<N> weights) {
  const int64_t E = router.experts, K = router.top_k, T = static_cast<int64_t>(scores.size()) / E;
  TERN_CHECK(1 <= K && K <= E && static_cast<int64_t>(chosen.size()) == T * K && weights.size() == chosen.size(),
             "choose_experts: {} of {}, {} scores, {} chosen", K, E, scores.size(), chosen.size());
  TERN_CHECK(
      E % router.groups == 0 && router.top_groups <= router.groups && K <= router.top_groups * (E / router.groups),
      "choose_experts: {} of {} in {} of {} groups", K, E, router.top_groups, router.groups);
  const N scaling = static_cast<N>(router.scaling);
  parallel_ranges(T, row_grain(E * kOpsPerScore), 1, [&](int64_t begin, int64_t end) {
    std::vector<std::pair<N, int32_t>> queue;
    std::vector<N> choice(static_cast<size_t>(E));
    for (int64_t t = begin; t < end; ++t) {
      const std::span<N> p = part(scores, t, E), w = part(weights, t, K);
      const std::span<int32_t> ids = part(chosen, t, K);
      if (router.score == Score::softmax)
        softmax(p);
      else
        sigmoid_elements(p);
      std::copy(p.begin(), p.end(), choice.begin());
      for (size_t e = 0; e < bias.size(); ++e) choice[e] += bias[e];
      if (router.groups > 1) keep_best_groups<N>(router, choice, queue);
      greatest<N>(choice, queue, ids);
      N sum = 0;
      for (size_t k = 0; k < ids.size(); ++k) sum += w[k] = p[static_cast<size_t>(ids[k])];
      if (router.normalized)
        for (N& x : w) x /= sum + tiniest<N>(router);
      for (N& x : w) x *= scaling;
    }
  });
}

template <class T>
void choose_experts_backward(const Router& router, std::span<const RouterNumber<T>> scores,
                             std::span<const int32_t> chosen, std::span<const RouterNumber<T>> weights,
                             std::span<const RouterNumber<T>> dweights, std::span<T> dlogits) {
  using N = RouterNumber<T>;
  const N scaling = static_cast<N>(router.scaling);
  const int64_t E = router.experts, K = router.top_k, rows = static_cast<int64_t>(scores.size()) / E;
  parallel_ranges(rows, row_grain(E * kOpsPerScore), 1, [&](int64_t begin, int64_t end) {
    std::vector<N> dp(static_cast<size_t>(E));
    for (int64_t t = begin; t < end; ++t) {
      const auto p = part(scores, t, E), u = part(weights, t, K), du = part(dweights, t, K);
      const auto ids = part(chosen, t, K);
      N inner = 0, sum = 0;
      for (size_t k = 0; k < ids.size(); ++k) inner += du[k] * u[k], sum += p[static_cast<size_t>(ids[k])];
      sum += tiniest<N>(router);
      std::fill(dp.begin(), dp.end(), N{0});
      N dot = 0;
      for (size_t k = 0; k < ids.size(); ++k) {
        const auto e = static_cast<size_t>(ids[k]);
        dp[e] = router.normalized ? (scaling * du[k] - inner) / sum : scaling * du[k];
        dot += dp[e] * p[e];
      }
      const auto out = part(dlogits, t, E);
      for (size_t e = 0; e < out.size(); ++e)
        out[e] = stored<T>(router.score == Score::softmax ? p[e] * (dp[e] - dot) : dp[e] * p[e] * (1 - p[e]));
    }
  });
}

void sort_by_expert(std::span<const int32_t> chosen, int64_t top_k, std::span<int32_t> begin, std::span<int32_t> tokens,
                    std::span<int32_t> rows) {
  TERN_CHECK(tokens.size() == chosen.size() && rows.size() == chosen.size(), "sort_by_expert: {} chosen, {} rows",
             chosen.size(), rows.size());
  std::vector<int32_t> next(begin.size(), 0);
  for (const int32_t e : chosen) ++next[static_cast<size_t>(e) + 1];
  for (size_t e = 0; e < begin.size(); ++e) begin[e] = next[e] += e ? next[e - 1] : 0;
  for (size_t i = 0; i < chosen.size(); ++i) {
    const int32_t row = next[static_cast<size_t>(chosen[i])]++;
    rows[i] = row;
    tokens[static_cast<size_t>(row)] = static_cast<int32_t>(static_cast<int64_t>(i) / top_k);
  }
}

template <class T>
void combine_rows(std::span<const T> x, int64_t width, std::span<const int32_t> rows,
                  std::span<const RouterNumber<T>> weights, bool add, std::span<T> y) {
  using N = RouterNumber<T>;
  constexpr int64_t kBlock = 256;  // sums in registers and L1
  const int64_t num = width ? static_cast<int64_t>(y.size()) / width : 0;
  const int64_t K = num ? static_cast<int64_t>(rows.size()) / num : 0;
  parallel_ranges(num, row_grain(width * (K + 1)), 1, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t)
      for (int64_t at = 0; at < width; at += kBlock) {
        const int64_t count = std::min(kBlock, width - at);
        std::array<N, kBlock> sum{};
        T* const to = y.data() + t * width + at;
        for (int64_t k = 0; k < K; ++k) {
          const N w = weights.empty() ? N{1} : weights[static_cast<size_t>(t * K + k)];
          const T* const from = x.data() + rows[static_cast<size_t>(t * K + k)] * width + at;
          for (int64_t i = 0; i < count; ++i) sum[static_cast<size_t>(i)] += w * number(from[i]);
        }
        for (int64_t i = 0; i < count; ++i)
          to[i] = stored<T>(add ? number(to[i]) + sum[static_cast<size_t>(i)] : sum[static_cast<size_t>(i)]);
      }
  });
}

template <class T>
void row_dots(std::span<const T> a, std::span<const T> b, int64_t width, std::span<const int32_t> rows,
              std::span<RouterNumber<T>> dots) {
  using N = RouterNumber<T>;
  constexpr int64_t kLanes = 16;  // element i to lane i % 16, then the lanes in order
  parallel_ranges(static_cast<int64_t>(dots.size()), row_grain(width), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = rows.empty() ? i : rows[static_cast<size_t>(i)];
      const T *const p = a.data() + row * width, *const q = b.data() + row * width;
      std::array<N, kLanes> lanes{};
      int64_t at = 0;
      for (; at + kLanes <= width; at += kLanes)
        for (int64_t l = 0; l < kLanes; ++l) lanes[static_cast<size_t>(l)] += number(p[at + l]) * number(q[at + l]);
      for (int64_t l = 0; at + l < width; ++l) lanes[static_cast<size_t>(l)] += number(p[at + l]) * number(q[at + l]);
      N sum = 0;
      for (const N lane : lanes) sum += lane;
      dots[static_cast<size_t>(i)] = sum;
    }
  });
}

template <class T>
void scale_rows(std::span<const RouterNumber<T>> factors, int64_t width, std::span<const int32_t> rows,
                std::span<T> x) {
  parallel_ranges(static_cast<int64_t>(factors.size()), row_grain(width), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = rows.empty() ? i : rows[static_cast<size_t>(i)];
      const RouterNumber<T> f = factors[static_cast<size_t>(i)];
      T* const at = x.data() + row * width;
      for (int64_t j = 0; j < width; ++j) at[j] = stored<T>(f * number(at[j]));
    }
  });
}

template <class N>
void sigmoid_elements(std::span<N> x) {
  for (N& v : x) v = 1 / (1 + std::exp(-v));
}

template void choose_experts<float>(const Router&, std::span<const float>, std::span<float>, std::span<int32_t>,
                                    std::span<float>);
template void choose_experts<double>(const Router&, std::span<const double>, std::span<double>, std::span<int32_t>,
                                     std::span<double>);
template void sigmoid_elements<float>(std::span<float>);
template void sigmoid_elements<double>(std::span<double>);
#define TERN_EXPERTS(T)                                                                                               \
  template void choose_experts_backward<T>(const Router&, std::span<const RouterNumber<T>>, std::span<const int32_t>, \
                                           std::span<const RouterNumber<T>>, std::span<const RouterNumber<T>>,        \
                                           std::span<T>);                                                             \
  template void combine_rows<T>(std::span<const T>, int64_t, std::span<const int32_t>,                                \
                                std::span<const RouterNumber<T>>, bool, std::span<T>);                                \
  template void row_dots<T>(std::span<const T>, std::span<const T>, int64_t, std::span<const int32_t>,                \
                            std::span<RouterNumber<T>>);                                                              \
  template void scale_rows<T>(std::span<const RouterNumber<T>>, int64_t, std::span<const int32_t>, std::span<T>);
TERN_EXPERTS(float)
TERN_EXPERTS(bf16)
TERN_EXPERTS(double)
#undef TERN_EXPERTS

}  // namespace tern
