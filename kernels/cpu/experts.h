#pragma once
// What a mixture of experts does with rows around its matrix products: it sorts them by expert, scales them, takes dot products of them, and
// adds them to their tokens. A token's results depend on its own row alone, and are the same bits on every instruction set.
// kernels/cpu/router.h chooses the experts; kernels/ref/experts_ref.h is the twin.
//
// Letters: T tokens, E experts, K chosen for each token, R = T·K rows, sorted by expert and, within an expert, by token.
// Elements of rows are of type X: float or bf16; weights, factors, dot products and sigmoids are floats.
//
// Order, of every function: one thread computes a row's numbers, in the order of the formula, whatever else is in the batch.

#include <cstdint>
#include <span>

namespace tern {

/// Shapes  chosen (T, K); begin (E + 1): expert e has rows begin[e] to begin[e + 1] - 1; tokens (R): the token of each row;
///         rows (T, K): the row of a token at its k-th chosen expert.
/// Errors  TERN_CHECK: ids outside [0, E), 2³¹ rows or more, sizes of the spans.
void sort_by_expert(std::span<const int32_t> chosen, int64_t top_k, std::span<int32_t> begin, std::span<int32_t> tokens,
                    std::span<int32_t> rows);

/// y row t = (y row t if `add`) + Σ_k weights[t, k]·x row rows[t, k].
/// Shapes  x (R, width); rows, weights (T, K); without weights each is 1; y (T, width), not the memory of x.
/// Order   k ascending, summed in float and rounded to X once.
/// Errors  none: model/ passes shapes that match.
template <class X>
void combine_rows(std::span<const X> x, int64_t width, std::span<const int32_t> rows, std::span<const float> weights,
                  bool add, std::span<X> y);
/// dots[i] = a row rows[i] · b row rows[i]; if `rows` is empty: row i of each.
/// Shapes  a, b (.., width); dots and rows of equal length.
/// Order   element j is added to sum j % 16, ascending, in float; then the 16 sums are added in order.
/// Errors  none, as above.
template <class X>
void row_dots(std::span<const X> a, std::span<const X> b, int64_t width, std::span<const int32_t> rows,
              std::span<float> dots);
/// x row rows[i] *= factors[i], in float, rounded to X; if `rows` is empty: row i.
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
