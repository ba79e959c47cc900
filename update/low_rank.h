#pragma once
// PowerSGD: a matrix that ranks average travels as two thin factors, one of them new each time.
//   turn even: P = orth(P), Q = mean of Mᵀ P;  odd: Q = orth(Q), P = mean of M Q;  what all get is P Qᵀ, and M - P Qᵀ stays for the next turn.
// M is what a rank has plus what was left out before. What all get plus the mean of what stays is the mean of M.
// Source: Vogels et al. 2019, arXiv:1905.13727 (text not seen), and their code, in which too the two factors take turns.

#include <cstdint>
#include <span>

#include "base/rng.h"
#include "tensor/tensor.h"

namespace tern {

/// A tensor as a matrix (all but its first dimension are columns) and the columns of its factors; factor_rank 0: it travels whole.
struct LowRankForm {
  int64_t rows = 0, columns = 0, factor_rank = 0;
  int64_t left() const { return rows * factor_rank; }
  int64_t right() const { return columns * factor_rank; }
  /// Numbers that travel in a turn.
  int64_t fresh(int64_t turn) const { return factor_rank == 0 ? rows * columns : turn % 2 == 0 ? right() : left(); }
};
/// Factors of r = min(rank, rows, columns) columns; none for vectors, or where r·(rows + columns) > rows·columns.
LowRankForm low_rank_form(const Shape&, int rank);

/// The columns of f (rows, rank) become orthonormal, by Gram-Schmidt twice over, in their order. A column that depends on those before it, or is
/// zero, becomes a direction drawn by the key; rank ≤ rows. Bits: one thread, one order.
template <class T>
void orthonormalize(std::span<T> f, int64_t rows, int64_t rank, RngKey);
/// p (rows, r) = m (rows, columns) · q (columns, r), and q = mᵀ · p. Each number is one sum in ascending order.
template <class T>
void times_right(std::span<const T> m, std::span<const T> q, const LowRankForm&, std::span<T> p);
template <class T>
void times_left(std::span<const T> m, std::span<const T> p, const LowRankForm&, std::span<T> q);
/// out = p · qᵀ; left, if there is any: left -= out.
template <class T>
void expand(std::span<const T> p, std::span<const T> q, const LowRankForm&, std::span<T> out, std::span<T> left);

}  // namespace tern
