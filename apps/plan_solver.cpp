#include "apps/plan_solver.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <sstream>

#include "apps/child_process.h"
#include "apps/private_folder.h"
#include "base/error.h"
#include "base/io.h"
#include "base/text.h"
#include "base/units.h"
#include "planner/instance/search.h"
#include "planner/judges/audit.h"
#include "planner/judges/flow_lp.h"

namespace tern {
namespace {

constexpr int64_t kMostBinaries = 30'000;
constexpr double kMostSeconds = 60;

// The objective's value in a solution file: cbc begins it with "Optimal - objective value X", highs has a line
// "Objective X".
bool read_value(const std::string& text, double& value) {
  std::istringstream words(text);
  bool optimal = false;
  for (std::string word; words >> word;) {
    optimal |= word == "Optimal";
    if (word == "value" || word == "Objective") return optimal && static_cast<bool>(words >> value);
  }
  return false;
}

}  // namespace

SolverVerdict solver_verdict(const PlanQuestion& q, const Plan& plan) {
  const std::string solver = found_program("cbc") ? "cbc" : found_program("highs") ? "highs" : "";
  if (solver.empty()) return {"not asked: neither cbc nor highs is on the PATH"};
  const PipelineSchedule schedule = plan.choice.schedule;
  if (!traits_of(schedule).certified)
    return {fmt::format("not asked: its encoding knows gpipe and 1f1b, not {}", name_of(schedule))};
  const Instance in = instance_of(q.spec, q.cluster, q.request, plan);
  int64_t binaries = 0;
  for (size_t u = 0; u < in.within.size(); ++u)
    binaries += static_cast<int64_t>(in.within[u].size()) * (2 * in.num_stages - 1);
  if (binaries > kMostBinaries)
    return {fmt::format("not asked: {} binaries, more than the {} of a small case", format_with_commas(binaries),
                        format_with_commas(kMostBinaries))};
  const SearchResult want =
      search(in, {.objective = Objective::simple, .seconds = kMostSeconds, .stop = q.request.stop});
  if (!want.found || want.interrupted) return {"not asked: the search over the simple objective was not finished"};
  const PrivateFolder folder;
  const std::string lp = join_path(folder.path, "plan.lp"), solution = join_path(folder.path, "plan.sol");
  write_file_atomically(real_io(), lp, flow_lp(in));
  const auto start = std::chrono::steady_clock::now();
  const auto spent = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
  const std::vector<std::string> command =
      solver == "cbc" ? std::vector<std::string>{"cbc", lp, "-ratioGap", "0", "-solve", "-solution", solution}
                      : std::vector<std::string>{"highs", lp, "--solution_file", solution};
  const ChildResult ran = run_child(command, {.join_stderr = true, .kill_when = [&] {
                                                return spent() > kMostSeconds || (q.request.stop && *q.request.stop);
                                              }});
  if (ran.killed) return {fmt::format("{} had no answer within {}", solver, format_seconds(spent()))};
  if (ran.exit_code > 128)
    return {fmt::format("{} crashed (signal {}); nothing was concluded", solver, ran.exit_code - 128)};
  std::string text;
  if (real_io().stat(solution)) text = real_io().read(solution);
  double value = 0;
  if (!read_value(text, value))
    return {fmt::format("{} gave no optimum (exit code {}); nothing was concluded", solver, ran.exit_code)};
  const double expected = static_cast<double>(want.value_ps);
  if (std::abs(value - expected) > 1e-6 * expected)
    return {fmt::format("{} finds {} ps for this mesh under the simple objective, the search {}: one of the two errs",
                        solver, value, want.value_ps),
            true};
  return {fmt::format("{} agrees: under the simple objective this mesh's optimum is {} ({} binaries, {})", solver,
                      format_seconds(expected * 1e-12), format_with_commas(binaries), format_seconds(spent()))};
}

}  // namespace tern
