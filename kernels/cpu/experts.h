#pragma once
// What a mixture of experts needs around its matrix products: choosing experts, sorting rows by expert, adding their
// results. Plain loops over threads, the same for every instruction set; a token's results depend on its own row alone.
// K of E experts for each of T tokens; R = T·K rows, sorted by expert, within one by token. T float, bf16 or double
// (which judges the others); numbers of the router are float, double beside double.

#include <cstdint>
#include <span>
#include <type_traits>

namespace tern {

/// Numbers that a router makes beside rows of T.
template <class T>
using RouterNumber = std::conditional_t<std::is_same_v<T, double>, double, float>;

enum class Score : uint8_t { softmax, sigmoid };
struct Router {
  int64_t experts, top_k;
  bool normalized = true;  // the chosen scores are divided by their sum
  Score score = Score::softmax;
  double scaling = 1;                  // of the weights
  int64_t groups = 1, top_groups = 1;  // only experts of the best groups are chosen; groups of equal size. A group's
                                       // score: softmax, its greatest; sigmoid, the sum of its two greatest
};

/// Logits (T, E) become scores; chosen (T, K) are the experts of the K greatest, ascending; weights (T, K) theirs. bias
/// (E) or empty is added to the scores for the choice alone.
/// Ties     between equal scores those win that the standard library's partial_sort (K·64 <= E) or nth_element leaves
/// in
///          front, as in PyTorch's top-k on a CPU. NaN counts as greatest.
/// Source   Shazeer et al. 2017, arXiv:1701.06538 (recalled); softmax before the choice as in Mixtral,
/// arXiv:2401.04088;
///          groups: DeepSeek-V2, arXiv:2405.04434; sigmoids and a bias: DeepSeek-V3, arXiv:2412.19437 (numbers
///          recalled).
template <class N>
void choose_experts(const Router&, std::span<const N> bias, std::span<N> scores, std::span<int32_t> chosen,
                    std::span<N> weights);
/// dlogits (T, E), rounded to T, from the gradients of the weights; the choice itself has none.
///   w = s·u,  u_k = p_k/Σp (or p_k):  dp_k = (du_k - Σ_j du_j·u_j)/Σp (or du_k),
///   softmax: dz = p·(dp - Σ dp·p),  sigmoid: dz = dp·p·(1 - p)
template <class T>
void choose_experts_backward(const Router&, std::span<const RouterNumber<T>> scores, std::span<const int32_t> chosen,
                             std::span<const RouterNumber<T>> weights, std::span<const RouterNumber<T>> dweights,
                             std::span<T> dlogits);

/// begin (E + 1): rows begin[e] to begin[e + 1] are expert e's; tokens (R): whose row it is; rows (T, K): where a
/// token's row at its k-th chosen expert lies.
void sort_by_expert(std::span<const int32_t> chosen, int64_t top_k, std::span<int32_t> begin, std::span<int32_t> tokens,
                    std::span<int32_t> rows);

/// y row t = (y row t if `add`) + Σ_k weights[t, k]·x row rows[t, k], k ascending, summed in float and rounded once.
/// weights may be empty: 1. Shapes x (R, width), y (T, width).
template <class T>
void combine_rows(std::span<const T> x, int64_t width, std::span<const int32_t> rows,
                  std::span<const RouterNumber<T>> weights, bool add, std::span<T> y);
/// dots[i] = a row rows[i] · b row rows[i], in one fixed order; rows may be empty: i.
template <class T>
void row_dots(std::span<const T> a, std::span<const T> b, int64_t width, std::span<const int32_t> rows,
              std::span<RouterNumber<T>> dots);
/// x row rows[i] *= factors[i]; rows may be empty: i.
template <class T>
void scale_rows(std::span<const RouterNumber<T>> factors, int64_t width, std::span<const int32_t> rows, std::span<T> x);
/// x = 1/(1 + exp(-x)).
template <class N>
void sigmoid_elements(std::span<N> x);

}  // namespace tern
