#pragma once
// A plan as a picture (timeline of a step, memory against capacity) and as one HTML page.

#include <string>

#include "planner/outer/plan_model.h"
#include "planner/words/story.h"

namespace tern {

/// plan_timeline: an SVG of the step on each rank. plan_memory: an SVG of the most bytes that each rank's devices hold. Of more
/// than sixteen ranks both show the first and the last eight.
std::string plan_timeline(const PlanAnswer&);
std::string plan_memory(const PlanAnswer&);
/// One SVG with both, and the plan in words.
std::string plan_picture(const PlanAnswer&);
/// The HTML page.
std::string plan_page(const ModelSpec&, const Cluster&, const PlanAnswer&, const PlanStory&);

}  // namespace tern
