#include "kernels/ref/experts_ref.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace tern {

namespace {

double sigmoid(double z) { return 1 / (1 + std::exp(-z)); }

// How many of `all` are before number i: greater, or equal with a lower number.
int64_t rank_of(const std::vector<double>& all, size_t i) {
  int64_t before = 0;
  for (size_t j = 0; j < all.size(); ++j) before += all[j] > all[i] || (all[j] == all[i] && j < i) ? 1 : 0;
  return before;
}

// A group's own: its greatest, or the sum of its two greatest.
double group_score(Score score, std::vector<double> of_group) {
  std::sort(of_group.rbegin(), of_group.rend());
  if (score == Score::softmax) return of_group[0];
  return of_group.size() > 1 ? of_group[0] + of_group[1] : -INFINITY;
}

}  // namespace

// p = softmax(z) or sigmoid(z);  chosen: the K greatest of p + bias in the best groups;  w = s·p/Σp or s·p
void choose_experts_ref(const Router& r, std::span<const double> bias, std::span<double> scores,
                        std::span<int32_t> chosen, std::span<double> weights) {
  const auto E = static_cast<size_t>(r.experts), K = static_cast<size_t>(r.top_k);
  const size_t G = static_cast<size_t>(r.groups), size = E / G;
  for (size_t t = 0; t < scores.size() / E; ++t) {
    double* const p = scores.data() + t * E;
    double sum = 0;
    for (size_t e = 0; e < E; ++e) sum += std::exp(p[e]);
    for (size_t e = 0; e < E; ++e) p[e] = r.score == Score::softmax ? std::exp(p[e]) / sum : sigmoid(p[e]);

    std::vector<double> choice, groups;
    for (size_t e = 0; e < E; ++e) choice.push_back(p[e] + (bias.empty() ? 0 : bias[e]));
    for (size_t g = 0; g < G; ++g)
      groups.push_back(group_score(r.score, {choice.data() + g * size, choice.data() + (g + 1) * size}));
    std::vector<size_t> open;  // experts of the best groups
    std::vector<double> of_open;
    for (size_t e = 0; e < E; ++e)
      if (G == 1 || rank_of(groups, e / size) < r.top_groups) open.push_back(e), of_open.push_back(choice[e]);

    double of_chosen = 0;
    size_t k = 0;
    for (size_t i = 0; i < open.size(); ++i)
      if (k < K && rank_of(of_open, i) < r.top_k) {  // NaN would have more
        chosen[t * K + k] = static_cast<int32_t>(open[i]);
        of_chosen += weights[t * K + k++] = p[open[i]];
      }
    if (r.score == Score::sigmoid) of_chosen += 1e-20;
    for (k = 0; k < K; ++k) weights[t * K + k] *= r.scaling / (r.normalized ? of_chosen : 1);
  }
}

// By the Jacobians themselves: dw_k/dp_j, then dp_j/dz_e.
void choose_experts_backward_ref(const Router& r, std::span<const double> scores, std::span<const int32_t> chosen,
                                 std::span<const double> dweights, std::span<double> dlogits) {
  const auto E = static_cast<size_t>(r.experts), K = static_cast<size_t>(r.top_k);
  for (size_t t = 0; t < scores.size() / E; ++t) {
    const double* const p = scores.data() + t * E;
    const int32_t* const ids = chosen.data() + t * K;
    double sum = r.score == Score::sigmoid ? 1e-20 : 0;
    for (size_t k = 0; k < K; ++k) sum += p[ids[k]];
    for (size_t e = 0; e < E; ++e) {
      double dz = 0;
      for (size_t j = 0; j < K; ++j) {
        const auto at = static_cast<size_t>(ids[j]);
        double dp = 0;
        for (size_t k = 0; k < K; ++k) {
          const double same = j == k ? 1 : 0;
          dp += dweights[t * K + k] * r.scaling * (r.normalized ? same / sum - p[ids[k]] / (sum * sum) : same);
        }
        const double same = at == e ? 1 : 0;
        dz += dp * (r.score == Score::softmax ? p[at] * (same - p[e]) : same * p[at] * (1 - p[at]));
      }
      dlogits[t * E + e] = dz;
    }
  }
}

void combine_rows_ref(std::span<const double> x, int64_t width, std::span<const int32_t> rows,
                      std::span<const double> weights, bool add, std::span<double> y) {
  const auto D = static_cast<size_t>(width), T = y.size() / D, K = T ? rows.size() / T : 0;
  for (size_t t = 0; t < T; ++t)
    for (size_t i = 0; i < D; ++i) {
      double sum = add ? y[t * D + i] : 0;
      for (size_t k = 0; k < K; ++k)
        sum += (weights.empty() ? 1 : weights[t * K + k]) * x[static_cast<size_t>(rows[t * K + k]) * D + i];
      y[t * D + i] = sum;
    }
}

void row_dots_ref(std::span<const double> a, std::span<const double> b, int64_t width, std::span<const int32_t> rows,
                  std::span<double> dots) {
  const auto D = static_cast<size_t>(width);
  for (size_t i = 0; i < dots.size(); ++i) {
    const size_t row = rows.empty() ? i : static_cast<size_t>(rows[i]);
    dots[i] = 0;
    for (size_t j = 0; j < D; ++j) dots[i] += a[row * D + j] * b[row * D + j];
  }
}

void scale_rows_ref(std::span<const double> factors, int64_t width, std::span<const int32_t> rows,
                    std::span<double> x) {
  const auto D = static_cast<size_t>(width);
  for (size_t i = 0; i < factors.size(); ++i)
    for (size_t j = 0; j < D; ++j) x[(rows.empty() ? i : static_cast<size_t>(rows[i])) * D + j] *= factors[i];
}

void sigmoid_ref(std::span<double> x) {
  for (double& v : x) v = sigmoid(v);
}
void sigmoid_backward_ref(std::span<const double> dy, std::span<const double> y, std::span<double> dx) {
  for (size_t i = 0; i < dx.size(); ++i) dx[i] = dy[i] * y[i] * (1 - y[i]);
}

}  // namespace tern
