#pragma once
// How the jobs of two plans differ, in words.

#include <string>

#include "plan/train_job.h"

namespace tern {

/// "it is for --batch 8, not 16": the first value of the plan's job that is not the one asked for. "": the jobs are equal.
std::string job_difference(const TrainJob& plan, const TrainJob& asked);

}  // namespace tern
