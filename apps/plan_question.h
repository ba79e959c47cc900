#pragma once
// Reads the options of `tern plan` into values: the question for the planner, and what the command does with the answer.

#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "base/options.h"
#include "calibrate/calibration_file.h"
#include "planner/outer/plan_question.h"

namespace tern {

/// What the command writes. Texts are paths; "": this file is not written.
struct PlanOutputs {
  std::string plan, emitted, html, picture;
  bool json = false;     // JSON in place of words on standard output
  bool details = false;  // more than the answer's ten lines
};

struct PlanCommand {
  PlanQuestion question;
  std::optional<Calibration> calibration;
  std::string calibration_path;
  std::string check;                                                 // the plan file to judge; "": search for a plan
  bool certify = false;                                              // audit the plan that is found
  double judging_seconds = std::numeric_limits<double>::infinity();  // time limit of --certify and --check
  PlanOutputs outputs;
};

/// The command that the options give: a search or --check. Before a search it checks that outputs can be written, as an error afterwards is too late.
/// Errors: usage: options contradict each other, the model or the cluster; bad_file: a file that they name.
PlanCommand plan_command(const Options&, ModelSpec, Cluster);
/// Refuses options of a search that are given with --check, which does not search. Errors: usage.
void refuse_beside_check(const Options&);
/// Refuses sequences that are longer than the model's table of learned positions. Models with rotary or relative positions
/// pass. `what`: the options that give `tokens`. Errors: usage, with the number of positions.
void require_positions(const ModelSpec&, int64_t tokens, std::string_view what);

}  // namespace tern
