#include "update/robust.h"

#include <fmt/format.h>

#include <cmath>

namespace tern {
namespace {

std::string_view name_of(Aggregator a) { return kAggregatorNames[static_cast<size_t>(a)]; }

// Φ⁻¹ by bisection: a constant of a run, not a kernel.
double normal_quantile(double p) {
  double low = -10, high = 10;
  for (int i = 0; i < 200; ++i) {
    const double middle = (low + high) / 2;
    (0.5 * std::erfc(-middle / std::sqrt(2.0)) < p ? low : high) = middle;
  }
  return (low + high) / 2;
}

}  // namespace

int num_aggregated(const RobustConfig& c, int workers) {
  return c.mixing == Mixing::buckets ? (workers + kBucketSize - 1) / kBucketSize : workers;
}

std::string robust_fault(const RobustConfig& c, int workers) {
  const int n = num_aggregated(c, workers), f = c.byzantine;
  const std::string of = c.mixing == Mixing::buckets ? fmt::format("{} buckets of {} ranks", n, workers)
                                                     : fmt::format("{} ranks", workers);
  if (c.aggregator == Aggregator::mean)
    return f > 0 ? fmt::format("--byzantine {}: the mean goes wherever one rank wants; choose another --aggregator", f)
                 : "";
  const int needed = c.aggregator == Aggregator::krum ? 2 * f + 3 : 2 * f + 1;
  if (n >= needed) return "";
  const int beside = needed - 2 * f;
  return fmt::format("--byzantine {}: {} takes at least {} vectors, {} are too few; choose {}more --ranks", f,
                     name_of(c.aggregator), needed, of,
                     n >= beside ? fmt::format("--byzantine {} or ", (n - beside) / 2) : "");
}

int64_t robust_values(const RobustConfig& c, int workers) {
  const int64_t n = num_aggregated(c, workers);
  const int64_t mixing = c.mixing == Mixing::nearest ? n * n : 0;
  switch (c.aggregator) {
    case Aggregator::krum:
      return mixing + n * n;
    case Aggregator::geometric_median:
      return mixing + kMedianSteps * n;
    case Aggregator::centered_clipping:
      return mixing + kClippingSteps * n;
    default:
      return mixing;
  }
}

int64_t robust_state_bytes(const RobustConfig& c, int workers, int64_t elements, DType dtype) {
  const int64_t vectors =
      (c.local_momentum > 0 ? workers : 0) + (c.aggregator == Aggregator::centered_clipping ? 1 : 0);
  return vectors * elements * size_of(dtype);
}

int64_t robust_staging_bytes(const RobustConfig& c, int workers, int64_t elements, DType dtype) {
  const bool point = c.aggregator == Aggregator::geometric_median || c.aggregator == Aggregator::centered_clipping;
  return workers * elements * size_of(dtype) + (point ? elements * static_cast<int64_t>(sizeof(double)) : 0);
}

double alie_deviations(int workers, int attackers) {
  const int honest = workers - attackers, supporters = workers / 2 + 1 - attackers;
  return normal_quantile(static_cast<double>(honest - supporters) / honest);
}

}  // namespace tern
