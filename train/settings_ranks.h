#pragma once
// How the ranks of a run share out its steps: what each rank gets, in which order the ranks sum, and what ZeRO shares out.

#include <cstdint>
#include <vector>

#include "spec/model_spec.h"
#include "train/settings.h"

namespace tern {

/// Checks that the ranks can sum the step's micro-batches in the order asked for. Errors: usage, saying what does not
/// divide what, and which sizes would do (train/nearest_order.h).
void check_ranks(const TrainSettings&);
/// Whether the ranks can sum the micro-batches in the order asked for; for trying other sizes. It ignores that stages and ZeRO 2, 3 fix the order.
bool sums_in_order(const TrainSettings&);
/// The ZeRO stage of each unit: that of its layer in the plan, or the settings'.
std::vector<int> zero_of_units(const ModelSpec&, const TrainSettings&);
/// The highest ZeRO stage of any layer.
int deepest_zero(const TrainSettings&);
/// Whether each micro-batch's gradients are summed over ranks before the next micro-batch comes. If a rank has several micro-batches, this
/// changes the order of sums.
bool sums_each_micro_batch(const TrainSettings&);
/// The number of devices over which a plan cuts the layers; 1: each rank has all layers.
inline int num_stage_devices(const TrainSettings& s) { return s.plan ? s.plan->choice.num_stages : 1; }
/// The number of data shares, to which a step's micro-batches are dealt. The ranks of a context group are in one data share.
inline int data_parallel_size(const TrainSettings& s) {
  return s.ranks / num_stage_devices(s) / s.tensor / s.context_ranks;
}
/// The number of replicas: ranks that have the same layers and the same part of each matrix. Gradients are summed over them, and ZeRO shares
/// out among them. The ranks of a context group count one by one.
inline int num_sharers(const TrainSettings& s) { return data_parallel_size(s) * s.context_ranks; }
/// The micro-batch of a run that does not say it: as large as the groups of sums allow.
inline int64_t micro_batch_of_groups(int64_t batch, int64_t groups) {
  return batch % groups == 0 ? batch / groups : batch;
}
/// In so many equal parts a context group has the rows of a sequence; a ring gives each of its ranks two.
inline int64_t parts_of_rows(const TrainSettings& s) { return s.context_ring ? 2 * s.context_ranks : s.context_ranks; }
/// Sequences of a step in one data share.
inline int64_t rank_batch(const TrainSettings& s) { return s.batch / data_parallel_size(s); }

}  // namespace tern
