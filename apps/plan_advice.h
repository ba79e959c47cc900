#pragma once
// What to say where no plan was found: what is missing, and what near the request would fit.

#include <string>
#include <vector>

#include "planner/outer/plan_model.h"

namespace tern {

/// The same space without some of the restrictions that were given: "without --zero".
struct WiderSpace {
  std::string words;
  SearchSpace space;
};

/// Throws what run_plan ends with: does_not_fit where every choice is closed, undecided else. `json`: prints the
/// figures beforehand, where nothing fits.
/// `base`: the space without the axes of --fix, for the smallest change that fits where there are some.
[[noreturn]] void refuse_plan(const ModelSpec&, const Cluster&, const PlanRequest&, const PlanAnswer&,
                              const SearchSpace& base, const std::vector<WiderSpace>& wider, bool json);

}  // namespace tern
