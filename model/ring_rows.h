#pragma once
// Who has which rows in a ring of n ranks: the rows of a micro-batch in 2n equal parts, parts r and 2n − 1 − r on rank r (zig-zag). A row
// attends to those before it, and part 2n − 1 − r is the mirror image of part r: so all ranks have the same number of scores, whatever
// number of sequences of one length the rows hold.
// Source  Llama 3, Dubey et al. 2024, arXiv:2407.21783, §3.3.2 (recalled).

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/cpu/attention_onto.h"

namespace tern {

struct RowInterval {
  int64_t first, end;
};

/// The two parts of `rows` rows that a rank has, one after the other. Errors  TERN_CHECK: 2·ranks does not divide the rows.
std::array<RowInterval, 2> rows_in_ring(int64_t rows, int rank, int ranks);

/// What of `queries` and `keys`, two of those parts, attends: a piece for each sequence that both have a part of, none where no query sees a
/// key. Rows of a piece are counted from the beginnings that are given; starts as in Rows; window as in AttentionShape.
struct PartPlace {
  RowInterval rows;
  int64_t begin;  // the place of its first row among a rank's rows
};
void add_pieces(std::span<const int64_t> starts, const PartPlace& queries, const PartPlace& keys, int64_t window,
                std::vector<AttentionPiece>&);

}  // namespace tern
