#pragma once
// How the gradients of n workers become one where up to f of them may send anything: the choice as a value, the n and f that it
// allows, and the bytes that it takes. The arithmetic: update/aggregate.h; with ranks: update/robust_step.h.

#include <cstdint>
#include <string>
#include <string_view>

#include "base/dtype.h"

namespace tern {

/// In the order of the names. mean: the plain sum over ranks, to the bit.
enum class Aggregator : uint8_t { mean, krum, median, trimmed_mean, geometric_median, centered_clipping };
/// What is aggregated in the place of the workers' vectors: for each worker the mean of its vector and the n − f − 1 nearest
/// ones, or the means of random pairs (kBucketSize).
enum class Mixing : uint8_t { none, nearest, buckets };
/// What the attackers do, for studies and tests. They know all that the others send.
enum class Attack : uint8_t {
  none,
  garbage,       // N(0, 1) numbers, anew each step
  not_a_number,  // NaN
  alie,  // "a little is enough": μ - zσ of the others' coordinates, z = Φ⁻¹((n-f-s)/(n-f)), s = ⌊n/2+1⌋-f
  inner_product,  // -0.1 · the others' mean
  bit_flip,       // -10 · what it would have sent
  label_flip,     // learns token vocabulary - 1 - y in the place of y
};
inline constexpr std::string_view kAggregatorNames[] = {
    "mean", "krum", "median", "trimmed-mean", "geometric-median", "centered-clipping"};
inline constexpr std::string_view kMixingNames[] = {"none", "nearest", "buckets"};
inline constexpr std::string_view kAttackNames[] = {"none",          "garbage",  "nan",       "alie",
                                                    "inner-product", "bit-flip", "label-flip"};

/// Sources  local momentum and its use: Shi, Yang & Li 2024, arXiv:2305.13856; attacks: Baruch et al. 2019, arXiv:1902.06156 (alie),
///          Xie et al. 2020, arXiv:1903.03936 (inner_product); their constants as EPFL's and the first paper's experiments have them.
struct RobustConfig {
  Aggregator aggregator = Aggregator::mean;
  int byzantine = 0;  // f
  Mixing mixing = Mixing::none;
  double local_momentum =
      0;  // β of the momentum u = βu + (1 − β)g (at first u = g) that each worker sends in the place of g
  double clip_radius = 1;  // τ of centered clipping, on the scale of a worker's mean gradient over its own samples
                           // (a worker sends 1/n of that; RobustPart::unit converts)
  Attack attack = Attack::none;
  int attackers = 0;  // the ranks that attack: the last ones
  uint64_t seed = 1;  // of the random numbers for buckets and garbage
};

/// Steps of the geometric median and of centered clipping; vectors in a bucket.
inline constexpr int kMedianSteps = 8, kClippingSteps = 1, kBucketSize = 2;

/// Why this number of workers cannot be aggregated by this configuration, and what would do; "" if they can.
std::string robust_fault(const RobustConfig&, int workers);
/// Vectors that are aggregated: the workers', or the buckets'.
int num_aggregated(const RobustConfig&, int workers);
/// Doubles that each rank sends to each other rank in a step, beside the vector, of which every rank aggregates its own part.
int64_t robust_values(const RobustConfig&, int workers);
/// Bytes of all workers together, for vectors of `elements`: what they keep from step to step, and the memory of a step's vectors.
int64_t robust_state_bytes(const RobustConfig&, int workers, int64_t elements, DType);
int64_t robust_staging_bytes(const RobustConfig&, int workers, int64_t elements, DType);
/// The z of Attack::alie, for so many workers and attackers.
double alie_deviations(int workers, int attackers);

}  // namespace tern
