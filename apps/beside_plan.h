#pragma once
// The time of a step beside what its plan says.

#include <string>

#include "plan/plan.h"
#include "train/trainer.h"

namespace tern {

/// The plan's time of a step: "2.51 ms", "2.51 ms by the time of its Program".
std::string planned_words(const Plan&);

/// Behind what a run took: "; a step took …, the plan for … says …". The first step makes kernels and pages, so it is left out. The
/// share is given unless the plan's Program is another one, or fewer than three steps followed the first.
/// "": there was no step after the first.
std::string beside_plan(const Plan&, const TrainResult&);

}  // namespace tern
