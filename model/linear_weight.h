#pragma once
// A linear layer's weights, and the forms in which the numbers of its matrix stand. Products ask for the form in one
// place, model/linear.cpp, and the visitor hands out dense rows alone; nothing else looks inside. A new form (coded
// blocks, bands that a stream brings) is one more alternative here and one more case there.

#include <span>
#include <variant>
#include <vector>

#include "tensor/arena.h"
#include "tensor/tensor.h"

namespace tern {

/// The numbers as a computation reads them, (out, in) row-major: every product takes them, and they may be trained.
struct DenseWeight {
  Tensor rows;
};
/// The same numbers in the layout of the active instruction set's exact kernels (kernels/cpu/matmul.h): forward alone.
struct PackedWeight {
  Tensor bytes;
};
/// Rows where their file has them, (n, in) each, one piece below the other: forward alone, by kernels that read plain
/// weights.
struct RowPieces {
  std::vector<Tensor> pieces;
};
using Weight = std::variant<DenseWeight, PackedWeight, RowPieces>;

/// y = x·weightᵀ + bias.
struct Linear {
  Weight weight;  // (out, in)
  Tensor bias;    // (out), may be empty
  int64_t out = 0, in = 0;
};

/// The rows of a dense weight. Errors: TERN_CHECK for another form.
Tensor& dense_rows(Linear&);
const Tensor& dense_rows(const Linear&);

/// The packed form of a linear's (out, in) rows, one piece below the other, f32 or bf16.
PackedWeight packed_weight(const Linear&, std::span<const Tensor> pieces, Arena&);

}  // namespace tern
