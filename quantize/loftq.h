#pragma once
// LoftQ: codes and an adapter of low rank that together are nearest to a matrix. Source: Li et al. 2023, "LoftQ: LoRA-Fine-Tuning-Aware
// Quantization for Large Language Models", arXiv:2310.08659, algorithm 1 (recalled).

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/weight_type.h"

namespace tern {

/// Rows [row_begin, row_end) of a matrix and what is added to their codes: b·a.
struct LowRankRows {
  int64_t row_begin = 0, row_end = 0, rank = 0;
  std::vector<double> a = {}, b = {};  // (rank, in); (row_end - row_begin, rank), √σ on each side
};
struct LoftqCodes {
  std::vector<std::byte> rows;
  std::vector<LowRankRows> parts;
  std::vector<double> errors;  // Σ (w - q - b·a)², after each round
  double squares = 0;          // Σ w²
};

/// Codes w (n, in) in rounds: each round codes w - b·a (gptq_blocks without a factor), then b·a becomes the leading singular directions of
/// w - q; b·a begins as zero. `parts`: the rows of each, without a and b; rows of no part are coded alone.
/// Order   the same bytes for any number of threads, on one LAPACK. Errors  bad_file: no LAPACK, a number that is not finite. TERN_CHECK: a
///         rank above a part's sides, no rounds.
LoftqCodes loftq(WeightType, std::span<const float> w, int64_t in, std::vector<LowRankRows> parts, int rounds);

}  // namespace tern
