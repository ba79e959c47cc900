#pragma once
// Reads the options of `tern plan` for sequences of different lengths.

#include "plan/train_job.h"
#include "spec/model_spec.h"

namespace tern {

class Options;

/// The lengths of --lengths and --batching. If they are not given, every sequence has --seq tokens. Errors: usage:
/// --batching without --lengths, a model with an encoder beside its decoder, --emit (as no framework's command can say how
/// batches are made of such data); bad_file: the file of lengths.
JobLengths job_lengths(const Options&, const ModelSpec&);

}  // namespace tern
