#include "plan/job_windows.h"

#include <cmath>

#include "base/error.h"
#include "plan/window_mix.h"
#include "spec/attended_pairs.h"
#include "spec/training_flops.h"
#include "spec/unit_cost.h"

namespace tern {
namespace {

const WindowMix& mix_of(const TrainJob& job) {
  TERN_CHECK(job.lengths.mix, "plan: a job of {} sequences without their lengths", job.lengths.sequences);
  return *job.lengths.mix;
}

}  // namespace

double window_pairs(const TrainJob& job, const AttentionSpec& a) {
  return job.lengths.given() ? mix_of(job).pairs(a, job.seq) : static_cast<double>(attended_pairs(a, job.seq));
}

double step_tokens(const TrainJob& job) {
  if (!job.lengths.given()) return static_cast<double>(job.batch * job.seq);
  return static_cast<double>(job.batch) * mix_of(job).real_tokens(job.seq);
}

int64_t micro_batch_pairs(const TrainJob& job, const AttentionSpec& a, int64_t micro_batch, int64_t ranks,
                          int64_t windows) {
  if (!job.lengths.given()) return micro_batch * attended_pairs(a, job.seq);
  const WindowMix& mix = mix_of(job);
  const double each = mix.pairs(a, job.seq) * mix.slowest(a, job.seq, ranks, windows).factor;
  return std::llround(static_cast<double>(micro_batch) * each);
}

double training_flops_per_token(const ModelSpec& spec, const TrainJob& job) {
  if (!job.lengths.given()) return training_flops_per_token(spec, job.seq);
  const WindowMix& mix = mix_of(job);
  return training_flops_per_token(
      spec, [&](const AttentionSpec& a) { return mix.real_pairs(a, job.seq); }, mix.real_tokens(job.seq));
}

}  // namespace tern
