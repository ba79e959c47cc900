#pragma once
// A linear layer's weights, and the forms in which the numbers of its matrix stand. Only model/linear.cpp looks at the form to
// multiply; visitors hand out dense rows. Otherwise only makers (loading, packing), model/experts.cpp (bands of a cache) and
// model/row_lengths.cpp (dense rows) know it. A new form: an alternative here, a case in linear.cpp.

#include <memory>
#include <span>
#include <variant>
#include <vector>

#include "base/weight_type.h"
#include "spec/adapter_spec.h"
#include "tensor/arena.h"
#include "tensor/tensor.h"

namespace tern {

class ExtentRing;  // store/extent_ring.h

/// The numbers as a computation reads them, (out, in) row-major: every product takes them, and they may be trained.
struct DenseWeight {
  Tensor rows;
};
/// The same numbers in the layout of the active instruction set's exact kernels (kernels/cpu/matmul.h): forward alone.
struct PackedWeight {
  Tensor bytes;
};
/// Rows at their place in a mapped file, pieces of (n, in) stacked by rows; for the forward alone, by kernels that read plain
/// weights.
struct RowPieces {
  std::vector<Tensor> pieces;
};
/// The learned tables of a matrix, table_bytes of them (kernels/cpu/learned_codes.h); nullptr for types without.
using CodeTables = std::shared_ptr<const std::vector<int8_t>>;
/// Rows as a file codes them: whole blocks of `type`, in the file's mapped pages. head_dim: kernels/cpu/coded_rows.h.
struct CodedPiece {
  WeightType type;
  Tensor bytes;
  int64_t rows, head_dim = 0;
  CodeTables tables = {};
};
/// Pieces one below the other, each of its own type. Forward and input gradient have the bits of the dense rows that the pieces
/// decode to in the type of the computation (kernels/cpu/coded_matmul.h). in_integers: for the forward alone, by
/// kernels/cpu/coded_int8.h, which rounds the inputs.
struct CodedWeight {
  std::vector<CodedPiece> pieces;
  bool in_integers = false;
};
/// Some rows of a matrix: kept in memory, or an extent of a file that a ring reads for the time of their product.
struct WeightBand {
  int64_t rows = 0;
  std::variant<PackedWeight, CodedWeight> kept;
  ExtentRing* ring = nullptr;  // then `kept` is empty, and the extent holds the rows as `type` codes them
  int place = -1;              // in the ring's order
  WeightType type{};
  int64_t head_dim = 0;
  CodeTables tables = {};
};
/// Bands one below the other: for the forward alone, which has the bits of the rows that the bands decode to.
struct BandedWeight {
  std::vector<WeightBand> bands;
};
/// In gradients: stands for a weight that is not trained. Neither it nor its bias gets a gradient.
struct NotTrained {};
using Weight = std::variant<DenseWeight, PackedWeight, RowPieces, CodedWeight, BandedWeight, NotTrained>;

/// A trained product of low rank beside a weight: y += scale·b·(a·x), on the columns [row_begin, row_end) of y. Beside a
/// matrix that holds several modules (queries, keys and values; gate and up) each has a branch of its own, as in files of
/// adapters. Source: LoRA, Hu et al. 2021, arXiv:2106.09685 (recalled).
struct Branch {
  AdaptedModule module;
  int64_t row_begin = 0, row_end = 0, rank = 0;
  double scale = 1;       // alpha/rank, or alpha/√rank
  Tensor a = {}, b = {};  // (rank, in/pool); ((row_end - row_begin)/repeat, rank)
  int64_t pool = 1;       // a reads the means of each `pool` neighbouring columns of x in the place of x
  int64_t repeat = 1;     // b's number j goes to `repeat` neighbouring columns of y, from row_begin + j·repeat on
  double dropout = 0;     // of a's inputs, where Compute::dropout is set: the share that is left out
  uint64_t stream = 0;    // dropout's stream of random numbers
  bool has_magnitude = false;
  Tensor magnitude = {};    // (row_end - row_begin), trained: DoRA's m - ‖w‖ of each row (model/row_lengths.h)
  Tensor row_squares = {};  // f64, Σ w² of each of those rows of the weight
  Tensor factors = {};  // f64: what each column of y is multiplied by; made for a pass (model/row_lengths.h), or once
  Tensor lengths = {};  // f64, of a pass: norms of the rows of weight + scale·b·a; not computed if given (tests)
  bool is_elastic = false;
  Tensor elastic = {};  // (2), trained: shares β of what joins a·x and what joins b·h (model/elastic.h)
  int adapter =
      kEveryRow;  // its adapter among the several that run side by side; the branch then takes only those rows of x
                  // that Compute::adapter_rows gives that adapter
  static constexpr int kEveryRow = -1;
};

/// y = x·weightᵀ + bias + the branches.
struct Linear {
  Weight weight;  // (out, in)
  Tensor bias;    // (out), may be empty
  int64_t out = 0, in = 0;
  std::vector<Branch> branches;  // of a frozen or a trained weight; in gradients: those of their a and b
};

/// Whether the weight itself has a gradient.
bool is_trained(const Linear& gradient);
/// The rows of a dense weight. Errors: TERN_CHECK for another form.
Tensor& dense_rows(Linear&);
const Tensor& dense_rows(const Linear&);

/// The packed form of a linear's (out, in) rows, one piece below the other, f32 or bf16.
PackedWeight packed_weight(const Linear&, std::span<const Tensor> pieces, Arena&);

}  // namespace tern
