#include "train/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"

namespace tern {

std::string_view name_of(ScheduleKind kind) {
  switch (kind) {
    case ScheduleKind::cosine:
      return "cosine";
    case ScheduleKind::linear:
      return "linear";
    case ScheduleKind::constant:
      return "constant";
    case ScheduleKind::wsd:
      return "wsd";
  }
  return "?";
}

ScheduleKind schedule_from_name(std::string_view name) {
  for (const ScheduleKind kind :
       {ScheduleKind::cosine, ScheduleKind::linear, ScheduleKind::constant, ScheduleKind::wsd})
    if (name == name_of(kind)) return kind;
  throw Error(ErrorKind::usage, "--schedule: '{}' is none of cosine, linear, constant, wsd", name);
}

double learning_rate(const Schedule& s, int64_t step) {
  const int64_t at = std::min(step, s.total_steps);
  if (at <= s.warmup_steps) return s.peak * static_cast<double>(at) / static_cast<double>(s.warmup_steps);
  const double p = static_cast<double>(at - s.warmup_steps) / static_cast<double>(s.total_steps - s.warmup_steps);
  switch (s.kind) {
    case ScheduleKind::cosine:
      return s.minimum + (s.peak - s.minimum) * 0.5 * (1.0 + std::cos(std::numbers::pi * p));
    case ScheduleKind::linear:
      return s.peak + (s.minimum - s.peak) * p;
    case ScheduleKind::constant:
      return s.peak;
    case ScheduleKind::wsd: {
      const int64_t into_decay = at - (s.total_steps - s.decay_steps);
      if (into_decay <= 0) return s.peak;
      return s.peak + (s.minimum - s.peak) * static_cast<double>(into_decay) / static_cast<double>(s.decay_steps);
    }
  }
  return s.peak;
}

void check_schedule(const Schedule& s) {
  if (s.total_steps < 1) throw Error(ErrorKind::usage, "--steps: {}; a run has at least one step", s.total_steps);
  if (s.warmup_steps < 0 || s.warmup_steps > s.total_steps)
    throw Error(ErrorKind::usage, "--warmup-steps: {} steps of warm-up in a run of {} (--steps); choose at most that",
                s.warmup_steps, s.total_steps);
  if (!(s.peak > 0)) throw Error(ErrorKind::usage, "--learning-rate: {}; expected a positive number", s.peak);
  if (!(s.minimum >= 0 && s.minimum <= s.peak))
    throw Error(ErrorKind::usage, "--min-learning-rate: {}; expected 0 up to --learning-rate {}", s.minimum, s.peak);
  if (s.kind == ScheduleKind::wsd && (s.decay_steps < 0 || s.decay_steps > s.total_steps - s.warmup_steps))
    throw Error(ErrorKind::usage, "--decay-steps: {}; --steps {} less --warmup-steps {} leaves room for {}",
                s.decay_steps, s.total_steps, s.warmup_steps, s.total_steps - s.warmup_steps);
}

}  // namespace tern
