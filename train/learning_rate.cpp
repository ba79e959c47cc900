#include "train/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"

namespace tern {

std::string_view name_of(LearningRateKind kind) {
  switch (kind) {
    case LearningRateKind::cosine:
      return "cosine";
    case LearningRateKind::linear:
      return "linear";
    case LearningRateKind::constant:
      return "constant";
    case LearningRateKind::wsd:
      return "wsd";
  }
  return "?";
}

LearningRateKind learning_rate_kind_from_name(std::string_view name) {
  for (const LearningRateKind kind :
       {LearningRateKind::cosine, LearningRateKind::linear, LearningRateKind::constant, LearningRateKind::wsd})
    if (name == name_of(kind)) return kind;
  throw Error(ErrorKind::usage, "--schedule: '{}' is none of cosine, linear, constant, wsd", name);
}

double learning_rate(const LearningRateSchedule& s, int64_t step) {
  const int64_t at = std::min(step, s.total_steps);
  if (at <= s.warmup_steps) return s.peak * static_cast<double>(at) / static_cast<double>(s.warmup_steps);
  const double p = static_cast<double>(at - s.warmup_steps) / static_cast<double>(s.total_steps - s.warmup_steps);
  switch (s.kind) {
    case LearningRateKind::cosine:
      return s.minimum + (s.peak - s.minimum) * 0.5 * (1.0 + std::cos(std::numbers::pi * p));
    case LearningRateKind::linear:
      return s.peak + (s.minimum - s.peak) * p;
    case LearningRateKind::constant:
      return s.peak;
    case LearningRateKind::wsd: {
      const int64_t into_decay = at - (s.total_steps - s.decay_steps);
      if (into_decay <= 0) return s.peak;
      return s.peak + (s.minimum - s.peak) * static_cast<double>(into_decay) / static_cast<double>(s.decay_steps);
    }
  }
  return s.peak;
}

void check_schedule(const LearningRateSchedule& s) {
  if (s.total_steps < 1) throw Error(ErrorKind::usage, "--steps: {}; a run has at least one step", s.total_steps);
  if (s.warmup_steps < 0 || s.warmup_steps > s.total_steps)
    throw Error(ErrorKind::usage, "--warmup-steps: {} steps of warm-up in a run of {} (--steps); choose at most that",
                s.warmup_steps, s.total_steps);
  if (!(s.peak > 0)) throw Error(ErrorKind::usage, "--learning-rate: {}; expected a positive number", s.peak);
  if (!(s.minimum >= 0 && s.minimum <= s.peak))
    throw Error(ErrorKind::usage, "--min-learning-rate: {}; expected 0 up to --learning-rate {}", s.minimum, s.peak);
  if (s.kind == LearningRateKind::wsd && (s.decay_steps < 0 || s.decay_steps > s.total_steps - s.warmup_steps))
    throw Error(ErrorKind::usage, "--decay-steps: {}; --steps {} less --warmup-steps {} leaves room for {}",
                s.decay_steps, s.total_steps, s.warmup_steps, s.total_steps - s.warmup_steps);
}

}  // namespace tern
