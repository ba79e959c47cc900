#pragma once
// A plan in words, as `tern plan` prints it.

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "planner/outer/plan_model.h"

namespace tern {

/// A rank's bytes by purpose, in the order of kMemoryTitles.
std::array<int64_t, 5> memory_parts(const PlannedMemory&);
inline constexpr std::array<std::string_view, 5> kMemoryTitles{"weights", "gradients", "optimizer", "activations",
                                                               "buffers"};
inline constexpr std::string_view kMemoryWords =
    "activations and buffers: at the moment when a device holds most; buffers: what the layer at work takes, gathered "
    "weights, transfers under way";

/// The choice of the family's plan. If no plan of the family was seen: whether the family's bound excludes a faster one.
std::string rival_words(const Plan&, const PlannedFamily&);
/// "12.34 %" of a share of 0.1234.
std::string percent_words(double share);
/// A step's time with four significant digits, since a plan and its bound often agree in two.
std::string step_words(int64_t ps);
/// "its Program of 1,234 instructions takes the same time, instruction by instruction", or how much more or less.
/// Plan::program must be set.
std::string program_words(const Plan&);
/// How far to trust a step time that no measured run checks; "" where the rates are tern's own, measured here.
std::string uncalibrated_words(const Cluster&);
/// "3.1 s to 4.2 s in 90 % of 63 runs of X that were left out; half within 2.60 %". For fewer than 20 runs: the
/// range in which all of them lay.
std::string error_bar_words(const PlannedError&);
/// What is printed besides the plan.
struct PlanTextOptions {
  std::string uncalibrated;        // a line under the step; "" for none
  std::vector<std::string> notes;  // restrictions that are printed even without details
  bool details = true;
};
/// The answer in ten lines or so: choice, step, memory, price, what binds, proof. `details` adds the search and its
/// limits, layers, memory of each rank, rivals.
std::string plan_text(const PlanAnswer&, const Cluster&, const PlanTextOptions&);

}  // namespace tern
