#pragma once
// redistribution(from, to): which elements go from which rank to which, to turn a tensor's layout `from` into `to`. A
// pure function of two values: the moves are known, and their bytes, before anything moves.

#include <cstdint>
#include <vector>

#include "spec/layout.h"

namespace tern {

/// Elements [part.begin, part.end) of a box of the whole tensor, counted row-major inside the box.
struct Piece {
  std::vector<Interval> box;  // per dim
  Interval part;
};

/// A piece goes from one rank to another; from == to: a copy.
struct Move {
  int from, to;
  Piece piece;
};

/// One rank adds up the summands of a piece, one from each rank of `leaves`, in the order of the tree of spec/sum_order.h.
/// Summands of other ranks come as messages.
struct PieceSum {
  int rank;
  Piece piece;
  std::vector<int> leaves;  // ranks, ascending; each holds one summand
};

/// First the sums, then the moves; a move may send a sum's result. Both lists in an order that all ranks share.
struct Redistribution {
  Layout from, to;
  std::vector<PieceSum> sums;
  std::vector<Move> moves;
  /// Ranks whose new tensors begin as zero: where `to` is partial along an axis, all ranks along it but the first.
  std::vector<char> starts_zero;  // per rank
};

/// Both layouts are of one tensor (type and shape) over the same ranks; their meshes may differ.
/// Choice  where several ranks hold the same, a rank takes its own copy; ranks without one take turns over the holders, so that
///         senders share the work. A sum that several ranks want is shared out among them in equal parts,
///         which they then exchange.
/// Bytes   sent by all n ranks together, T those of the tensor. From B to S: 0; S(i) to S(j), equal parts: (n−1)/n·T; S to B, P to S: (n−1)·T;
///         P to B: 2(n−1)·T. Source: the table of OneFlow (Yuan et al. 2021, arXiv:2110.15032).
/// Errors  TERN_CHECK: layouts of unlike tensors or numbers of ranks, check_layout's.
Redistribution redistribution(const Layout& from, const Layout& to);

/// Bytes that each rank sends to each: [from · ranks + to]; those that stay are not counted.
std::vector<int64_t> message_bytes(const Redistribution&);

}  // namespace tern
