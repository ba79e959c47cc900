#pragma once
// How the gradients of n workers become one gradient although up to f of them may send anything: the configuration, the n and f that it
// allows, and its bytes. The arithmetic is in update/aggregate.h; with ranks, in update/robust_step.h.

#include <cstdint>
#include <string>
#include <string_view>

#include "base/dtype.h"

namespace tern {

/// In the order of kAggregatorNames. mean: the plain sum over ranks, to the bit.
enum class Aggregator : uint8_t { mean, krum, median, trimmed_mean, geometric_median, centered_clipping };
/// What is aggregated instead of the workers' own vectors. nearest: for each worker the mean of its vector and the n − f − 1 nearest
/// ones. buckets: the means of random pairs (kBucketSize).
enum class Mixing : uint8_t { none, nearest, buckets };
/// What attackers send, for studies and tests. Attackers know all that the others send.
enum class Attack : uint8_t {
  none,
  garbage,       // N(0, 1) numbers, anew each step
  not_a_number,  // NaN
  alie,  // "a little is enough": μ - zσ of the others, z = Φ⁻¹((n-a-s)/(n-a)), s = ⌊n/2+1⌋-a, a attackers
  inner_product,  // -0.1 · the others' mean
  bit_flip,       // -10 · what the attacker would have sent
  label_flip,     // the attacker learns token vocabulary - 1 - y instead of token y
};
inline constexpr std::string_view kAggregatorNames[] = {
    "mean", "krum", "median", "trimmed-mean", "geometric-median", "centered-clipping"};
inline constexpr std::string_view kMixingNames[] = {"none", "nearest", "buckets"};
inline constexpr std::string_view kAttackNames[] = {"none",          "garbage",  "nan",       "alie",
                                                    "inner-product", "bit-flip", "label-flip"};

/// Sources  local momentum and its use: Shi, Yang & Li 2024, arXiv:2305.13856. Attacks: Baruch et al. 2019, arXiv:1902.06156 (alie),
///          Xie et al. 2020, arXiv:1903.03936 (inner_product). The attacks' constants are those of EPFL's and of the first paper's experiments.
struct RobustConfig {
  Aggregator aggregator = Aggregator::mean;
  int byzantine = 0;  // f
  Mixing mixing = Mixing::none;
  double local_momentum =
      0;  // β: each worker sends the momentum u = βu + (1 − β)g (at first u = g) instead of its gradient g
  double clip_radius = 1;  // τ of centered clipping, on the scale of a worker's mean gradient over its own samples
                           // (a worker sends 1/n of that; RobustPart::unit converts)
  Attack attack = Attack::none;
  int attackers = 0;  // the number of ranks that attack: the last ranks
  uint64_t seed = 1;  // of the random buckets and of garbage
};

/// Steps of the geometric median, steps of centered clipping, and vectors in a bucket.
inline constexpr int kMedianSteps = 8, kClippingSteps = 1, kBucketSize = 2;

/// Why this configuration cannot aggregate so many workers, and what would help; "": it can.
std::string robust_fault(const RobustConfig&, int workers);
/// The number of vectors that are aggregated: the workers, or the buckets.
int num_aggregated(const RobustConfig&, int workers);
/// Doubles that each rank sends to each other rank in a step, beside the vectors. (Each rank aggregates one part of the vectors.)
int64_t robust_values(const RobustConfig&, int workers);
/// Bytes of all workers together, for vectors of `elements`: of what they keep from step to step; of one step's vectors.
int64_t robust_state_bytes(const RobustConfig&, int workers, int64_t elements, DType);
int64_t robust_staging_bytes(const RobustConfig&, int workers, int64_t elements, DType);
/// The z of Attack::alie for this many workers and attackers.
double alie_deviations(int workers, int attackers);

}  // namespace tern
