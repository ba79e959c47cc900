#pragma once
// `tern plan --lengths`: sequences of unlike length, from options to the job.

#include "plan/train_job.h"
#include "spec/model_spec.h"

namespace tern {

class Options;

/// --lengths and --batching. Not given: every sequence is --seq long. Errors: usage, --batching alone, a model with an
/// encoder beside its decoder, --emit (no framework's command can say how batches are made of such data); bad_file, the
/// file's.
JobLengths job_lengths(const Options&, const ModelSpec&);

}  // namespace tern
