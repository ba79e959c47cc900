#pragma once
// What a mixture of experts needs around its matrix products: choosing experts, sorting rows by expert, adding their
// results. A token's results depend on its own row alone, and are the same bits on every instruction set.
// kernels/ref/experts_ref.h is the twin.
//
// Letters: T tokens, E experts, K chosen for each token, R = T·K rows, sorted by expert, within one by token. Elements
// of rows are of type X: float or bf16; numbers of the router are floats.
//
// Order of all: a row's numbers are made by one thread in the order the formula says, whoever else is in the batch.

#include <cstdint>
#include <span>

namespace tern {

enum class Score : uint8_t { softmax, sigmoid };
struct Router {
  int64_t experts, top_k;
  bool normalized = true;  // the chosen scores are divided by their sum
  Score score = Score::softmax;
  double scaling = 1;  // of the weights
  // Experts are chosen from the `top_groups` best of `groups` groups of equal size. A group's score: softmax, its
  // greatest; sigmoid, the sum of its two greatest.
  int64_t groups = 1, top_groups = 1;
};

/// Logits become scores; the K experts of the greatest scores are chosen.
/// Shapes  scores (T, E), overwritten; chosen (T, K), ascending in each row; weights (T, K), theirs; bias (E), added to
///         the scores for the choice alone, or empty.
/// Ties    between equal scores those win that the partial_sort (K·64 <= E) or nth_element of GNU's C++ library leaves
///         in front, as in PyTorch's top-k on a CPU. NaN counts as greatest.
/// Errors  TERN_CHECK: K of E, groups that do not divide E or hold fewer than K, sizes of the spans.
/// Source  Shazeer et al. 2017, arXiv:1701.06538 (recalled). Softmax before the choice: Mixtral, arXiv:2401.04088.
///         Groups: DeepSeek-V2, arXiv:2405.04434. Sigmoids and a bias: DeepSeek-V3, arXiv:2412.19437 (numbers
///         recalled).
void choose_experts(const Router&, std::span<const float> bias, std::span<float> scores, std::span<int32_t> chosen,
                    std::span<float> weights);
/// dlogits (T, E), rounded to X, from the gradients of the weights (T, K); the choice itself has none.
///   w = s·u,  u_k = p_k/Σp (or p_k):  dp_k = (s·du_k - Σ_j du_j·w_j)/Σp (or s·du_k),
///   softmax: dz = p·(dp - Σ dp·p),  sigmoid: dz = dp·p·(1 - p)
template <class X>
void choose_experts_backward(const Router&, std::span<const float> scores, std::span<const int32_t> chosen,
                             std::span<const float> weights, std::span<const float> dweights, std::span<X> dlogits);

/// Shapes  chosen (T, K); begin (E + 1): rows begin[e] to begin[e + 1] are expert e's; tokens (R): whose row it is;
///         rows (T, K): where a token's row at its k-th chosen expert lies.
/// Errors  TERN_CHECK: ids outside [0, E), 2³¹ rows or more, sizes of the spans.
void sort_by_expert(std::span<const int32_t> chosen, int64_t top_k, std::span<int32_t> begin, std::span<int32_t> tokens,
                    std::span<int32_t> rows);

/// y row t = (y row t if `add`) + Σ_k weights[t, k]·x row rows[t, k].
/// Shapes  x (R, width); rows, weights (T, K), weights may be empty: 1; y (T, width), not x.
/// Order   k ascending, summed in float and rounded to X once.
/// Errors  none: model/ has made the shapes.
template <class X>
void combine_rows(std::span<const X> x, int64_t width, std::span<const int32_t> rows, std::span<const float> weights,
                  bool add, std::span<X> y);
/// dots[i] = a row rows[i] · b row rows[i]; rows may be empty: i.
/// Shapes  a, b (.., width); dots and rows of equal length.
/// Order   element j to sum j % 16, each ascending in float, then the 16 sums in order.
/// Errors  none, as above.
template <class X>
void row_dots(std::span<const X> a, std::span<const X> b, int64_t width, std::span<const int32_t> rows,
              std::span<float> dots);
/// x row rows[i] *= factors[i], in float, rounded to X; rows may be empty: i.
/// Shapes  x (.., width); factors and rows of equal length, no row twice.
/// Errors  none, as above.
template <class X>
void scale_rows(std::span<const float> factors, int64_t width, std::span<const int32_t> rows, std::span<X> x);

/// x = 1/(1 + exp(-x)), element by element, of any shape.
void sigmoid_elements(std::span<float> x);
/// dx = dy·y·(1 - y), rounded to X, with y as sigmoid_elements left it. Equal lengths.
template <class X>
void sigmoid_backward(std::span<const float> dy, std::span<const float> y, std::span<X> dx);

}  // namespace tern
