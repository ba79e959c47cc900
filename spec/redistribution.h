#pragma once
// redistribution(from, to): which elements each rank sends to which rank to turn a tensor's layout `from` into `to`. A
// pure function of two values: the moves and their bytes are known before anything moves.

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

/// The sums come first, then the moves; a move may send a sum's result. All ranks have both lists in the same order.
struct Redistribution {
  Layout from, to;
  std::vector<PieceSum> sums;
  std::vector<Move> moves;
  /// Ranks whose new tensors begin as zero: where `to` is partial along an axis, all ranks along it but the first.
  std::vector<char> starts_zero;  // per rank
};

/// Both layouts are of one tensor (type and shape) over the same ranks; their meshes may differ.
/// Choice  A rank that already holds elements that it needs takes its own copy. Ranks that need elements and do not hold them take turns
///         over the ranks that do, so that senders share the work. A sum that several ranks want is cut into equal parts: each of them computes one
///         part, and then they exchange the parts.
/// Bytes   sent by all n ranks together; T: bytes of the tensor. From B to S: 0; S(i) to S(j), equal parts: (n−1)/n·T; S to B, P to S: (n−1)·T;
///         P to B: 2(n−1)·T. Source: the table of OneFlow (Yuan et al. 2021, arXiv:2110.15032).
/// Errors  TERN_CHECK: the layouts differ in type, shape or number of ranks, or check_layout refuses one of them.
Redistribution redistribution(const Layout& from, const Layout& to);

/// Bytes that each rank sends to each other rank, at [from · ranks + to]. Bytes that stay on a rank are not counted.
std::vector<int64_t> message_bytes(const Redistribution&);

}  // namespace tern
