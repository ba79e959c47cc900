#pragma once
// A linear layer's weights, and the forms in which its matrix can be held. The form matters to model/linear.cpp, which
// multiplies, to the code that loads or packs weights, to model/experts.cpp (bands of a cache) and to model/row_lengths.cpp
// (dense rows). Whoever calls dense_rows allows no other form. A new form takes an alternative of Weight here and a case in linear.cpp.

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

/// Plain numbers in the type of the computation, (out, in) row-major. Every product can read them, and they can be trained.
struct DenseWeight {
  Tensor rows;
};
/// The same numbers in the layout of the active instruction set's exact kernels (kernels/cpu/matmul.h), for the forward alone.
struct PackedWeight {
  Tensor bytes;
};
/// Plain rows in pieces (n, in) that are stacked by rows and may lie in a
/// mapped file. For the forward alone, by kernels that read plain weights.
struct RowPieces {
  std::vector<Tensor> pieces;
};
/// A matrix's learned tables, of table_bytes bytes (kernels/cpu/learned_codes.h); nullptr for types without tables.
using CodeTables = std::shared_ptr<const std::vector<int8_t>>;
/// Rows as a file codes them: whole blocks of `type`, in the file's mapped pages. head_dim: kernels/cpu/coded_rows.h.
struct CodedPiece {
  WeightType type;
  Tensor bytes;
  int64_t rows, head_dim = 0;
  CodeTables tables = {};
};
/// Pieces stacked by rows, each of its own type. Forward and input gradient have the bits of the products
/// with the rows decoded in the type of the computation (kernels/cpu/coded_matmul.h).
/// in_integers: multiplied by kernels/cpu/coded_int8.h, which rounds the inputs; for the forward alone.
struct CodedWeight {
  std::vector<CodedPiece> pieces;
  bool in_integers = false;
};
/// Some rows of a matrix: kept in memory, or an extent of a file that a ring reads for the time of their product.
/// in_integers: those rows are then multiplied as CodedWeight::in_integers says; `kept` says it of itself.
struct WeightBand {
  int64_t rows = 0;
  std::variant<PackedWeight, CodedWeight> kept;
  ExtentRing* ring = nullptr;  // if not null, `kept` is empty and an extent of the ring holds the rows, coded as `type`
  int place = -1;              // number of the extent in the ring's order
  WeightType type{};
  int64_t head_dim = 0;
  CodeTables tables = {};
  bool in_integers = false;
};
/// Bands stacked by rows. For the forward alone. It has the bits of the product with the decoded rows, or of CodedWeight in integers.
struct BandedWeight {
  std::vector<WeightBand> bands;
};
/// In gradients: marks a weight that is not trained. Neither the weight nor its bias gets a gradient.
struct NotTrained {};
using Weight = std::variant<DenseWeight, PackedWeight, RowPieces, CodedWeight, BandedWeight, NotTrained>;

/// A trained product of low rank beside a weight: y += scale·b·(a·x), on the columns [row_begin, row_end)
/// of y. If a matrix holds several modules (queries, keys and values; gate and up), each module has a
/// branch of its own, as in adapter files. Source: LoRA, Hu et al. 2021, arXiv:2106.09685 (recalled).
struct Branch {
  AdaptedModule module;
  int64_t row_begin = 0, row_end = 0, rank = 0;
  double scale = 1;       // alpha/rank, or alpha/√rank
  Tensor a = {}, b = {};  // (rank, in/pool); ((row_end - row_begin)/repeat, rank)
  int64_t pool = 1;       // `a` multiplies the means of each `pool` neighbouring columns of x, instead of x
  int64_t repeat = 1;     // b's output j is added to `repeat` neighbouring columns of y, from row_begin + j·repeat on
  double dropout = 0;     // the share of a's inputs that is dropped if Compute::dropout is set
  uint64_t stream = 0;    // dropout's stream of random numbers
  bool has_magnitude = false;
  Tensor magnitude = {};    // (row_end - row_begin), trained: DoRA's m - ‖w‖ of each row (model/row_lengths.h)
  Tensor row_squares = {};  // f64, Σ w² of each of those rows of the weight
  Tensor factors = {};  // f64: the factor of each column of y; made for each pass (model/row_lengths.h), or only once
  Tensor lengths = {};  // f64, of a pass: norms of the rows of weight + scale·b·a; not computed if given (tests)
  bool is_elastic = false;
  Tensor elastic = {};  // (2), trained: the shares β₁ and β₂ of the elastic connection (model/elastic.h)
  int adapter =
      kEveryRow;  // its adapter among the several that run side by side; the branch then acts only on those rows of x
                  // that Compute::adapter_rows gives that adapter
  static constexpr int kEveryRow = -1;
};

/// y = x·weightᵀ + bias + the branches.
struct Linear {
  Weight weight;  // (out, in)
  Tensor bias;    // (out), may be empty
  int64_t out = 0, in = 0;
  std::vector<Branch> branches;  // beside a frozen or a trained weight; in gradients: with the gradients of a and b
};

/// Whether the weight itself has a gradient.
bool is_trained(const Linear& gradient);
/// The rows of a dense weight. Errors: TERN_CHECK for another form.
Tensor& dense_rows(Linear&);
const Tensor& dense_rows(const Linear&);

/// Packs the (out, in) rows of a linear, f32 or bf16, given as pieces stacked by rows.
PackedWeight packed_weight(const Linear&, std::span<const Tensor> pieces, Arena&);

}  // namespace tern
