// Our plan beside rules of thumb, under the same costs and on the same simulator.
//
//   rivals PRESET CLUSTER.toml BATCH SEQ [SECONDS]

#include <cstdio>
#include <cstdlib>

#include "base/error.h"
#include "planner/baselines/rules.h"
#include "spec/presets.h"

int main(int argc, char** argv) {
  const auto spec = argc > 4 ? tern::preset_model(argv[1]) : std::nullopt;
  if (!spec) {
    std::puts("rivals PRESET CLUSTER.toml BATCH SEQ [SECONDS]");
    return 2;
  }
  try {
    const tern::Cluster cluster = tern::read_cluster(argv[2]);
    tern::PlanRequest request{.model = argv[1], .job = {.batch = std::atol(argv[3]), .seq = std::atol(argv[4])}};
    request.space.states = request.space.activations = {tern::Tier::device};
    if (argc > 5) request.seconds = std::atof(argv[5]);
    const tern::PlanAnswer a = tern::plan_model(*spec, cluster, request);
    if (!a.found) {
      std::puts(a.proven_infeasible ? "nothing fits" : "no plan found in time");
      return 3;
    }
    const double ours = static_cast<double>(a.plan.step_ps) * 1e-12;
    std::printf("%-28s %10.4f s          %s\n", "tern plan", ours, tern::to_string(a.plan.choice).c_str());
    for (const tern::RulePlan& r : tern::rules_of_thumb(*spec, cluster, request, 40, 1)) {
      const double step = static_cast<double>(r.makespan_ps) * 1e-12;
      if (r.found)
        std::printf("%-28s %10.4f s  %+6.1f %%  %s\n", r.rule.c_str(), step, 100 * (step / ours - 1),
                    tern::to_string(r.choice).c_str());
      else
        std::printf("%-28s does not fit\n", r.rule.c_str());
    }
  } catch (const tern::Error& e) {
    std::fprintf(stderr, "rivals: %s\n", e.what());
    return 1;
  }
  return 0;
}
