#include "infer/best_sample.h"

#include <utility>

namespace tern {

bool ended_by_itself(const Sample& s) { return s.reason == FinishReason::eos || s.reason == FinishReason::stop; }

double mean_log_probability(const Sample& s) {
  const size_t count = s.token_ids.size() + (s.reason == FinishReason::eos);
  return count > 0 ? s.sum_log_probability / static_cast<double>(count) : 0;
}

size_t likeliest_sample(std::span<const Sample> samples) {
  const auto worth = [](const Sample& s) {
    const bool whole = s.reason != FinishReason::cancelled && s.reason != FinishReason::failed;
    return std::pair(whole, mean_log_probability(s));
  };
  size_t best = 0;
  for (size_t i = 1; i < samples.size(); ++i)
    if (worth(samples[i]) > worth(samples[best])) best = i;
  return best;
}

}  // namespace tern
