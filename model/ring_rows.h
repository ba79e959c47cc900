#pragma once
// Which rows each rank has in a ring of n ranks. The rows of a micro-batch are cut into 2n equal parts; rank r has the
// parts r and 2n − 1 − r (zig-zag). A row attends to itself and the rows before it. If all sequences have one length,
// part p and part 2n − 1 − p together have equally many scores for every p, so all ranks have equal work.
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

/// The two parts of `rows` rows that a rank has, in order. Errors: TERN_CHECK: 2·ranks does not divide the rows.
std::array<RowInterval, 2> rows_in_ring(int64_t rows, int rank, int ranks);

/// A part of a rank's rows. add_pieces appends a piece for each sequence with rows in `queries` and in `keys`, if a query sees a key.
/// Row numbers in a piece are places among a rank's rows. `starts`: of all sequences, as in Rows; `window`: as in AttentionShape.
struct PartPlace {
  RowInterval rows;
  int64_t begin;  // the place of the part's first row among a rank's rows
};
void add_pieces(std::span<const int64_t> starts, const PartPlace& queries, const PartPlace& keys, int64_t window,
                std::vector<AttentionPiece>&);

}  // namespace tern
