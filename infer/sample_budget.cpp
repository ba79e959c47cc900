#include "infer/sample_budget.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace tern {
namespace {

double gain_behind(const SampleOdds& o, int64_t samples) {
  return o.ceiling * o.right * std::exp(static_cast<double>(samples) * std::log1p(-o.right));
}

}  // namespace

double chance_of_a_right_one(const SampleOdds& o, int64_t samples) {
  return -o.ceiling * std::expm1(static_cast<double>(samples) * std::log1p(-o.right));
}

// The formula's rounding may miss by one where the gain is the least one exactly.
int64_t samples_worth_their_time(const SampleOdds& o, double least_gain) {
  TERN_CHECK(o.right > 0 && o.right < 1 && o.ceiling > 0 && o.ceiling <= 1 && least_gain > 0,
             "samples_worth_their_time: odds {} of {}, gain {}", o.right, o.ceiling, least_gain);
  const double ideal = std::log(least_gain / (o.ceiling * o.right)) / std::log1p(-o.right);
  auto samples = static_cast<int64_t>(std::clamp(std::ceil(ideal), 1.0, 1e15));
  while (samples > 1 && gain_behind(o, samples - 1) < least_gain) --samples;
  while (gain_behind(o, samples) >= least_gain) ++samples;
  return samples;
}

}  // namespace tern
