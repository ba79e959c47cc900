#pragma once
// Learning-rate schedules as closed forms of the step: no state, so a resume cannot go wrong.

#include <cstdint>
#include <string_view>

namespace tern {

enum class LearningRateKind : uint8_t { cosine, linear, constant, wsd };
std::string_view name_of(LearningRateKind);
/// Errors: usage, naming what is known.
LearningRateKind learning_rate_kind_from_name(std::string_view);

struct LearningRateSchedule {
  LearningRateKind kind = LearningRateKind::cosine;
  double peak = 1e-3, minimum = 1e-4;         // learning rates
  int64_t warmup_steps = 0, decay_steps = 0;  // decay_steps: wsd only
  int64_t total_steps = 1;
};

/// The learning rate of 1-based step s. W warm-up, N total, D decay steps, L peak, M minimum:
///   s <= W    L·s/W                                     (step W already runs at the peak)
///   cosine    M + (L - M)·(1 + cos(π·p))/2,  p = (s - W)/(N - W)     (step N runs at M)
///   linear    L + (M - L)·p
///   constant  L
///   wsd       L until N - D, then L + (M - L)·(s - (N - D))/D
/// Steps beyond N keep the value of step N.
/// Source  cosine: Loshchilov & Hutter 2017, arXiv:1608.03983, without
///         restarts; wsd (warm-up, stable, decay): Hu et al. 2024,
///         arXiv:2404.06395 (recalled), here with a linear decay.
double learning_rate(const LearningRateSchedule&, int64_t step);

/// Errors: usage, naming the option: warm-up or decay longer than the run, minimum above the peak, …
void check_schedule(const LearningRateSchedule&);

}  // namespace tern
