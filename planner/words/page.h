#pragma once
// A plan as a picture (timeline of a step, memory against capacity) and as one HTML page.

#include <string>

#include "planner/outer/plan_model.h"
#include "planner/words/story.h"

namespace tern {

/// SVG: the step on each rank, and the most that its devices hold. Ranks beyond sixteen: the first and last eight.
std::string plan_timeline(const PlanAnswer&);
std::string plan_memory(const PlanAnswer&);
/// Both under each other, with the plan in words: one SVG.
std::string plan_picture(const PlanAnswer&);
std::string plan_page(const ModelSpec&, const Cluster&, const PlanAnswer&, const PlanStory&);

}  // namespace tern
