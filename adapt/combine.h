#pragma once
// Several adapters of one base become one. Sums in f64; what is written is rounded once (adapt/adapter_matrices.h).

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tern {

/// One matrix's adapter: it adds scale·b·a to the weight (out, in).
struct AdapterMatrix {
  int64_t rank = 0, out = 0, in = 0;
  double scale = 1;
  std::vector<double> a, b;  // (rank, in); (out, rank)
};
/// By the path of the module, "model.layers.0.self_attn.q_proj".
using AdapterMatrices = std::map<std::string, AdapterMatrix>;

enum class MajoritySign { total, frequency };
/// How numbers of several adapters become one. The A's and the B's apart (w_i: √|weight·scale| for both, its sign for A alone),
/// or the products scale·B·A (w_i: the weight), which are then factored again by singular values.
enum class Arithmetic {
  linear,           // Σ w_i·x_i
  magnitude_prune,  // the same of the largest numbers of each
  dare_linear,      // the same of numbers drawn at random, divided by the density
  ties,             // mean of the largest numbers of each that agree with the sign that the majority has there
  dare_ties,        // the same of numbers drawn at random, divided by the density
};
struct Combination {
  enum class How { factors, products, cat, opcm } how = How::factors;
  Arithmetic arithmetic = Arithmetic::linear;  // of factors, products
};
/// PEFT's names: "linear", "svd", "cat", "ties", "ties_svd", …; and "opcm". nullopt: another.
std::optional<Combination> combination_named(std::string_view);
const std::vector<std::string_view>& combination_names();
/// Whether it reads CombineSettings::density.
bool prunes(const Combination&);

struct CombineSettings {
  Combination combination;
  std::vector<double> weights;  // of each adapter
  double density = 1;           // share of the numbers that stay, in (0, 1]
  MajoritySign sign = MajoritySign::total;
  int64_t rank = 0;  // of products; 0: the largest among the adapters
  uint64_t seed = 1;
};

/// Frobenius norms of what adapters add to all weights together.
struct CombineNorms {
  std::vector<double> each;  // weight·scale·B·A of each adapter
  double combined = 0;
};
struct Combined {
  AdapterMatrices matrices;  // scale 1
  CombineNorms norms;
};

/// A module that some adapters lack is combined of those that have it.
/// linear, ties, …  numbers as PEFT's add_weighted_adapter combines them. Of equal magnitudes at a density's cutoff the
///        first in the matrix stay. Random numbers are keyed by seed, module, factor, adapter, place: they depend on
///        nothing else; PEFT draws others.
/// svd    without pruning the singular values are those of small cores between orthogonal factors of all A and B.
/// opcm   one adapter after the other, in their order: what a later one adds loses its components in the leading singular
///        directions of what is merged (those with half of the sum of singular values) and on the rest of the diagonal; then all is
///        scaled so that its norm is the mean of the adapters' norms. Rank: at most the sum of ranks.
/// Errors  usage: ranks of a module that differ where factors are combined. bad_file: shapes that differ; numbers that are not
///         finite. TERN_CHECK: as many weights as adapters.
/// Source  Yadav et al. 2023, arXiv:2306.01708 (TIES); Yu et al. 2024, arXiv:2311.03099 (DARE); peft 0.21's merge_utils; OPCM: Tang
///         et al. 2025, arXiv:2501.09522 (by way of its authors' program).
Combined combine_adapters(const std::vector<AdapterMatrices>&, const CombineSettings&);

}  // namespace tern
