#pragma once
// Learning-rate schedules as closed forms of the step. They have no state, so a resumed run needs none.

#include <cstdint>
#include <string_view>

namespace tern {

enum class LearningRateKind : uint8_t { cosine, linear, constant, wsd };
std::string_view name_of(LearningRateKind);
/// The kind of that name. Errors: usage, with the names that there are.
LearningRateKind learning_rate_kind_from_name(std::string_view);

/// A schedule. Steps count from 1.
struct LearningRateSchedule {
  LearningRateKind kind = LearningRateKind::cosine;
  double peak = 1e-3, minimum = 1e-4;         // learning rates
  int64_t warmup_steps = 0, decay_steps = 0;  // decay_steps: of wsd alone
  int64_t total_steps = 1;
};

/// The learning rate of step s, with W warm-up, N total and D decay steps, L the peak, M the minimum:
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

/// Checks that the schedule makes sense. Errors: usage, naming the option: warm-up or decay longer than the run, minimum above the peak, …
void check_schedule(const LearningRateSchedule&);

}  // namespace tern
