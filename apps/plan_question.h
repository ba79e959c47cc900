#pragma once
// The options of `tern plan`, read in one place into values: what is asked of the planner, and what the command does
// with the answer.

#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "base/options.h"
#include "calibrate/calibration_file.h"
#include "planner/outer/plan_question.h"

namespace tern {

/// Files to write; "": not asked for.
struct PlanOutputs {
  std::string plan, emitted, html, picture;
  bool json = false;     // on standard output: JSON in place of words
  bool details = false;  // more than the answer's ten lines
};

struct PlanCommand {
  PlanQuestion question;
  std::optional<Calibration> calibration;
  std::string calibration_path;
  std::string check;                                                 // the plan file to judge; "": search for a plan
  bool certify = false;                                              // audit the plan that is found
  double judging_seconds = std::numeric_limits<double>::infinity();  // of --certify and --check
  PlanOutputs outputs;
};

/// Reads the options of --check or of a search. Outputs that cannot be written are errors here, not after a long search.
/// Errors: usage, for options that contradict each other, the model or the cluster; bad_file, of the files they name.
PlanCommand plan_command(const Options&, ModelSpec, Cluster);

/// Errors: usage: an option that --check, which searches nothing, would not heed.
void refuse_beside_check(const Options&);
/// Learned positions are rows of a table: beyond them there is no model. `what`: the options that give `tokens`.
/// Errors: usage, with how many there are. Rotary and relative positions pass.
void require_positions(const ModelSpec&, int64_t tokens, std::string_view what);

}  // namespace tern
