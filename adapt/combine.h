#pragma once
// Combines several adapters of one base model into one. It computes in f64; numbers are rounded once, when they are written
// (adapt/adapter_file.h).

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "adapt/adapter_matrix.h"

namespace tern {

/// How the majority's sign at a place is found: the sign of the sum, or the sign that more numbers have.
enum class MajoritySign { total, frequency };

/// How x, the numbers of several adapters at one place, become one number. w_i is the weight of adapter i there (see Combination::How).
enum class Arithmetic {
  linear,           // Σ w_i·x_i
  magnitude_prune,  // Σ w_i·x_i over the largest numbers of each adapter
  dare_linear,      // Σ w_i·x_i/density over numbers drawn at random
  ties,             // the mean of the w_i·x_i, over the largest numbers of each adapter that have the majority's sign
  dare_ties,        // the same over numbers drawn at random and divided by the density
};

/// A method of combining.
struct Combination {
  // factors: the A's and the B's apart. w_i is √|weight·scale| for both; the A's have its sign too.
  // products: the products scale·B·A, which are then factored again by singular values. w_i is the weight.
  // cat: the factors one below the other; their product is the exact weighted sum, and ranks add up.
  // opcm: one adapter after the other (combine_adapters).
  enum class How { factors, products, cat, opcm } how = How::factors;
  Arithmetic arithmetic = Arithmetic::linear;  // of factors and products
};
/// The method of that name: PEFT's names "linear", "svd", "cat", "ties", "ties_svd", …, and "opcm". None: there is no such method.
std::optional<Combination> combination_named(std::string_view);
const std::vector<std::string_view>& combination_names();
/// Whether the method uses CombineSettings::density.
bool prunes(const Combination&);

struct CombineSettings {
  Combination combination;
  std::vector<double> weights;              // by adapter
  double density = 1;                       // the share of an adapter's numbers that stay, in (0, 1]
  MajoritySign sign = MajoritySign::total;  // of ties
  int64_t rank = 0;                         // of the result of products; 0: the largest rank among the adapters
  uint64_t seed = 1;                        // of random draws
};

/// Frobenius norms of what adapters add to all weights, taken together.
struct CombineNorms {
  std::vector<double> each;  // by adapter: the norm of weight·scale·B·A
  double combined = 0;       // of the result
};

struct Combined {
  AdapterMatrices matrices;  // scale 1
  CombineNorms norms;
};

/// Combines adapters. A module that some adapters lack is combined from those that have it.
/// linear, ties, …  combine numbers as PEFT's add_weighted_adapter does. If the cutoff of a density falls among equal magnitudes, the first
///        of them in the matrix stay. Random draws depend on nothing but seed, module, factor, adapter and place; PEFT draws other numbers.
/// svd    without pruning, the singular values are found from small matrices between orthogonal factors of all A and all B.
/// opcm   merges one adapter after the other, in their order. Of a later adapter, written as a matrix in the singular vectors of what is merged so
///        far, two parts become 0: the block of the leading directions (which hold half of the sum of singular values), and the rest of the diagonal.
///        At the end all is scaled so that its norm is the mean of the adapters' norms. The rank is at most the sum of ranks.
/// Errors  usage: factors are combined, and the adapters of a module have unlike ranks. bad_file: unlike shapes; numbers that are not finite.
///         TERN_CHECK: another number of weights than of adapters.
/// Source  Yadav et al. 2023, arXiv:2306.01708 (TIES); Yu et al. 2024, arXiv:2311.03099 (DARE); peft 0.21's merge_utils; OPCM: Tang
///         et al. 2025, arXiv:2501.09522 (by way of its authors' program).
Combined combine_adapters(const std::vector<AdapterMatrices>&, const CombineSettings&);

}  // namespace tern
