#pragma once
// `tern plan --inference`: the options, the answer on standard output, and what the engine here counts for it.

#include <string>

#include "planner/words/serving.h"

namespace tern {

class Options;

struct ServingCommand {
  ServingQuestion question;
  std::string emit_output;  // where the command of vLLM is written; "": nowhere
  bool json = false;
};
/// Errors: usage, for options that contradict each other, the model or the cluster.
ServingCommand serving_command(const Options&, ModelSpec, Cluster);
/// Plans, prints, and returns the exit code. Errors: does_not_fit (serving_refusal).
int plan_inference(const ServingCommand&);

/// The job alone. Errors: usage, for what tern's own engine does not keep (`engine`: its rates are in the cluster
/// file), and for options of training beside it.
InferenceJob inference_job(const Options&, bool engine);
/// Errors: usage, for options of --inference without it.
void refuse_inference_options(const Options&);

}  // namespace tern
