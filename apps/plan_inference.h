#pragma once
// `tern plan --inference`: reads the options, plans, and prints the answer.

#include <string>

#include "planner/words/serving.h"

namespace tern {

class Options;

struct ServingCommand {
  ServingQuestion question;
  std::string kv_place = "auto";  // of --kv-place
  std::string emit_output;        // the file to which vLLM's command is written; "": none
  bool json = false;
};
/// The command that the options give. Errors: usage: options contradict each other, the model or the cluster.
ServingCommand serving_command(const Options&, ModelSpec, Cluster);
/// Plans, prints, and returns the exit code. Errors: does_not_fit (serving_refusal).
int plan_inference(const ServingCommand&);

/// The job that the options describe. `engine`: the cluster file has the rates of tern's own engine, so that a job which that engine cannot run is
/// refused. Errors: usage: such a job; options of training.
InferenceJob inference_job(const Options&, bool engine);
/// Refuses options of --inference if --inference is not given. Errors: usage.
void refuse_inference_options(const Options&);

}  // namespace tern
