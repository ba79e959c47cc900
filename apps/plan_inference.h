#pragma once
// `tern plan --inference`: how a cluster serves a model, in words and as JSON.

#include "base/json.h"
#include "plan/inference.h"

namespace tern {

class Options;

/// The options of --inference. Errors: usage, for what tern's own engine does not keep (`engine`: its rates are in the
/// cluster file), and for options of training beside it.
InferenceJob inference_job(const Options&, bool engine);
/// Errors: usage, for options of --inference without it.
void refuse_inference_options(const Options&);
/// Plans, prints, and returns the exit code. Errors: does_not_fit, with the tier that binds, the missing bytes and what
/// would fit, or with the times that the targets lack.
int plan_inference(const Options&, const ModelSpec&, const Cluster&);

Json serving_json(const ServingAnswer&, const InferenceJob&);

}  // namespace tern
