#pragma once
// What a training job's windows hold, on average and in the slowest rank: tokens, attended pairs, FLOPs.

#include <cstdint>

#include "plan/train_job.h"
#include "spec/model_spec.h"
#include "spec/training_flops.h"

namespace tern {

/// Means over the windows of a job. Without lengths every sequence counts as `seq` tokens. Errors: TERN_CHECK: the job
/// was read from a file, which does not hold the distribution of lengths.
double window_pairs(const TrainJob&,
                    const AttentionSpec&);  // pairs per window and head that a rank computes, padding included
double step_tokens(const TrainJob&);        // tokens of a step without padding
/// Mean attended pairs of a micro-batch on the slowest of `ranks` ranks. The ranks wait for each other after every
/// `windows` windows.
int64_t micro_batch_pairs(const TrainJob&, const AttentionSpec&, int64_t micro_batch, int64_t ranks, int64_t windows);
/// training_flops_per_token of spec/training_flops.h, for real tokens and the pairs inside sequences.
double training_flops_per_token(const ModelSpec&, const TrainJob&);

}  // namespace tern
