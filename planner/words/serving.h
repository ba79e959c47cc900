#pragma once
// How a cluster serves a model: the question, and its answer in words and as JSON.

#include <string>

#include "base/json.h"
#include "hardware/cluster.h"
#include "plan/inference_job.h"
#include "plan/serving_search.h"
#include "spec/model_spec.h"

namespace tern {

/// The question.
struct ServingQuestion {
  ModelSpec spec;
  Cluster cluster;
  std::string model;  // its name in the answer
  InferenceJob job;
  bool tern = false;                                   // tern's own engine serves, at its measured rates
  bool vllm = false;                                   // the answer is written as a command of vLLM
  bool all_on_device() const { return tern || vllm; }  // all bytes lie on the device, and none in coded blocks
};

/// The plan, its times and its memory, as text and as JSON.
std::string serving_text(const ServingQuestion&, const ServingAnswer&);
Json serving_json(const ServingQuestion&, const ServingAnswer&);

}  // namespace tern
