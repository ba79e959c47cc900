#pragma once
// A plan of training as the command line or file of another framework, with its order of ranks.

#include <string>
#include <vector>

#include "plan/frameworks.h"
#include "plan/plan.h"
#include "spec/model_spec.h"

namespace tern {

/// What another framework reads.
struct EmittedPlan {
  std::string file;                  // its usual name: "train.sh", "ds_config.json"
  std::string text;                  // a shell script, or JSON: the contents of that file
  std::vector<std::string> command;  // the command that runs it, word by word; CAPITALS: what only the user knows
  /// Where each axis lies in a global rank, innermost first: rank = tensor + tp·(context + cp·(data + dp·stage)).
  std::string rank_order;
  std::vector<std::string> notes;  // where the framework differs from what the plan counts
};

/// A shell script: lines that set the environment, then the command, each flag with its values on a line of its own.
/// Words are quoted if a shell would change them.
std::string script_of(const std::vector<std::string>& environment, const std::vector<std::string>& command);

/// The plan for a framework. `devices_of_node`: devices of each node that the plan uses.
/// Errors: usage, naming what the framework cannot run: a part of the model, the mesh, layers with unlike strategies.
EmittedPlan emit_plan(Framework, const ModelSpec&, const Plan&, int64_t devices_of_node);

}  // namespace tern
