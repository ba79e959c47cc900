#pragma once
// `tern plan --lengths`: sequences of unlike length, from options to the job, and what the report says of them.

#include <string>
#include <vector>

#include "base/json.h"
#include "plan/plan_file.h"
#include "spec/model_spec.h"

namespace tern {

class Options;

/// --lengths and --batching. Not given: every sequence is --seq long. Errors: usage, --batching alone, a model with an
/// encoder beside its decoder, --emit (no framework's line says how a batch is made of such data); bad_file, the
/// file's.
JobLengths job_lengths(const Options&, const ModelSpec&);

/// What the plan's times take for granted of these lengths, one sentence each; none without lengths.
std::vector<std::string> lengths_assumed(const Plan&);
/// Lines under a key of ten letters; null and "" without lengths. The plan's job has its distribution.
Json lengths_json(const ModelSpec&, const Plan&);
std::string lengths_words(const ModelSpec&, const Plan&);

}  // namespace tern
