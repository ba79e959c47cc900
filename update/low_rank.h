#pragma once
// PowerSGD: a matrix M that ranks average travels as two thin factors, P and Q. In each turn only one of them is averaged anew:
//   even turn: P = orth(P) on each rank, then Q = mean of Mᵀ P;  odd turn: Q = orth(Q), then P = mean of M Q.  All ranks get P Qᵀ; M - P Qᵀ stays for the next turn.
// A rank's M is its own matrix plus what stayed of the turn before. P Qᵀ plus the mean of what stays is the mean of M.
// Source: Vogels et al. 2019, arXiv:1905.13727 (text not seen), and their code, in which the two factors take turns too.

#include <cstdint>
#include <span>

#include "base/rng.h"
#include "tensor/tensor.h"

namespace tern {

/// A tensor as a matrix (all but its first dimension are columns), and its factors' number of columns; factor_rank 0: it travels whole.
struct LowRankForm {
  int64_t rows = 0, columns = 0, factor_rank = 0;
  int64_t left() const { return rows * factor_rank; }
  int64_t right() const { return columns * factor_rank; }
  /// The number of elements that travel in a turn.
  int64_t fresh(int64_t turn) const { return factor_rank == 0 ? rows * columns : turn % 2 == 0 ? right() : left(); }
};
/// The form with r = min(rank, rows, columns); factor_rank is 0 for vectors, and if r·(rows + columns) > rows·columns.
LowRankForm low_rank_form(const Shape&, int rank);

/// Makes the columns of f (rows, rank) orthonormal, in their order, by Gram-Schmidt twice over. A column that is zero, or depends on those
/// before it, is replaced by a random direction, drawn with the key. rank ≤ rows. One thread, one order of sums.
template <class T>
void orthonormalize(std::span<T> f, int64_t rows, int64_t rank, RngKey);
/// p (rows, r) = m (rows, columns) · q (columns, r); times_left: q = mᵀ · p. Each number is one sum in ascending order.
template <class T>
void times_right(std::span<const T> m, std::span<const T> q, const LowRankForm&, std::span<T> p);
template <class T>
void times_left(std::span<const T> m, std::span<const T> p, const LowRankForm&, std::span<T> q);
/// out = p · qᵀ. If `left` is not empty: left -= out.
template <class T>
void expand(std::span<const T> p, std::span<const T> q, const LowRankForm&, std::span<T> out, std::span<T> left);

}  // namespace tern
