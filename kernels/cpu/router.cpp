#include "kernels/cpu/router.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/dtype.h"
#include "base/error.h"
#include "kernels/cpu/parallel.h"

namespace tern {

namespace {

// Which of equal scores wins is what this library's algorithms leave in front, and PyTorch's wheels are built with it.
// Another library's would choose other experts without a word.
#ifndef __GLIBCXX__
#error "kernels/cpu/router.cpp: ties of a router follow the nth_element and partial_sort of GNU's C++ library"
#endif

template <class X>
X stored(float x) {
  if constexpr (std::is_same_v<X, bf16>)
    return to_bf16(x);
  else
    return x;
}

constexpr int64_t kOpsPerScore = 16;  // of a softmax and a choice, about

void softmax(std::span<float> z) {
  const float greatest = *std::max_element(z.begin(), z.end());
  float sum = 0;
  for (float& x : z) sum += x = std::exp(x - greatest);
  for (float& x : z) x /= sum;
}
void sigmoid(std::span<float> x) {
  for (float& v : x) v = 1 / (1 + std::exp(-v));
}

using Queue = std::vector<std::pair<float, int32_t>>;

// The places of the k greatest, ascending. `queue` is scratch.
void greatest(std::span<const float> values, Queue& queue, std::span<int32_t> places) {
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

// What is not in the best groups can not be chosen: -inf, since a bias may leave an expert of a best group below 0.
void keep_best_groups(const Router& router, std::span<float> choice, Queue& queue) {
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  const auto size = choice.size() / static_cast<size_t>(router.groups);
  std::vector<float> of_group;
  for (size_t at = 0; at < choice.size(); at += size) {
    const std::span<float> group = choice.subspan(at, size);
    const auto best = std::max_element(group.begin(), group.end());
    float score = *best;
    if (router.score == Score::sigmoid) {
      float second = kNever;
      for (auto x = group.begin(); x != group.end(); ++x)
        if (x != best) second = std::max(second, *x);
      score += second;
    }
    of_group.push_back(score);
  }
  std::vector<int32_t> kept(static_cast<size_t>(router.top_groups));
  greatest(of_group, queue, kept);
  for (size_t g = 0; g < of_group.size(); ++g)
    if (!std::binary_search(kept.begin(), kept.end(), static_cast<int32_t>(g)))
      std::fill_n(choice.begin() + static_cast<std::ptrdiff_t>(g * size), size, kNever);
}

// DeepSeek-V3 adds 1e-20 to a sum of sigmoids that may all be 0.
float tiniest(const Router& router) { return router.score == Score::sigmoid ? 1e-20f : 0.0f; }

template <class X>
std::span<X> part(std::span<X> all, int64_t row, int64_t width) {
  return all.subspan(static_cast<size_t>(row * width), static_cast<size_t>(width));
}

}  // namespace

void choose_experts(const Router& router, std::span<const float> bias, std::span<float> scores,
                    std::span<int32_t> chosen, std::span<float> weights) {
  const int64_t E = router.experts, K = router.top_k, T = static_cast<int64_t>(scores.size()) / E;
  TERN_CHECK(1 <= K && K <= E && static_cast<int64_t>(chosen.size()) == T * K && weights.size() == chosen.size(),
             "choose_experts: {} of {}, {} scores, {} chosen", K, E, scores.size(), chosen.size());
  TERN_CHECK(
      E % router.groups == 0 && router.top_groups <= router.groups && K <= router.top_groups * (E / router.groups),
      "choose_experts: {} of {} in {} of {} groups", K, E, router.top_groups, router.groups);
  TERN_CHECK(bias.empty() || static_cast<int64_t>(bias.size()) == E, "choose_experts: {} biases of {}", bias.size(), E);
  const auto scaling = static_cast<float>(router.scaling);
  parallel_ranges(T, row_grain(E * kOpsPerScore), 1, [&](int64_t begin, int64_t end) {
    Queue queue;
    std::vector<float> choice(static_cast<size_t>(E));
    for (int64_t t = begin; t < end; ++t) {
      const std::span<float> p = part(scores, t, E), w = part(weights, t, K);
      const std::span<int32_t> ids = part(chosen, t, K);
      if (router.score == Score::softmax)
        softmax(p);
      else
        sigmoid(p);
      std::copy(p.begin(), p.end(), choice.begin());
      for (size_t e = 0; e < bias.size(); ++e) choice[e] += bias[e];
      if (router.groups > 1) keep_best_groups(router, choice, queue);
      greatest(choice, queue, ids);
      float sum = 0;
      for (size_t k = 0; k < ids.size(); ++k) sum += w[k] = p[static_cast<size_t>(ids[k])];
      if (router.normalized)
        for (float& x : w) x /= sum + tiniest(router);
      for (float& x : w) x *= scaling;
    }
  });
}

template <class X>
void choose_experts_backward(const Router& router, std::span<const float> scores, std::span<const int32_t> chosen,
                             std::span<const float> weights, std::span<const float> dweights, std::span<X> dlogits) {
  const auto scaling = static_cast<float>(router.scaling);
  const int64_t E = router.experts, K = router.top_k, rows = static_cast<int64_t>(scores.size()) / E;
  parallel_ranges(rows, row_grain(E * kOpsPerScore), 1, [&](int64_t begin, int64_t end) {
    std::vector<float> dp(static_cast<size_t>(E));
    for (int64_t t = begin; t < end; ++t) {
      const auto p = part(scores, t, E), w = part(weights, t, K), du = part(dweights, t, K);
      const auto ids = part(chosen, t, K);
      float inner = 0, sum = 0;
      for (size_t k = 0; k < ids.size(); ++k) inner += du[k] * w[k], sum += p[static_cast<size_t>(ids[k])];
      sum += tiniest(router);
      std::fill(dp.begin(), dp.end(), 0.0f);
      float dot = 0;
      for (size_t k = 0; k < ids.size(); ++k) {
        const auto e = static_cast<size_t>(ids[k]);
        dp[e] = router.normalized ? (scaling * du[k] - inner) / sum : scaling * du[k];
        dot += dp[e] * p[e];
      }
      const auto out = part(dlogits, t, E);
      for (size_t e = 0; e < out.size(); ++e)
        out[e] = stored<X>(router.score == Score::softmax ? p[e] * (dp[e] - dot) : dp[e] * p[e] * (1 - p[e]));
    }
  });
}

#define TERN_ROUTER(X)                                                                                      \
  template void choose_experts_backward<X>(const Router&, std::span<const float>, std::span<const int32_t>, \
                                           std::span<const float>, std::span<const float>, std::span<X>);
TERN_ROUTER(float)
TERN_ROUTER(bf16)
#undef TERN_ROUTER

}  // namespace tern
