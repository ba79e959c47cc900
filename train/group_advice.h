#pragma once
// Which groups of ranks run where those that were asked for do not: the advice of messages.

#include <cstdint>
#include <string>

#include "spec/model_spec.h"
#include "train/settings.h"

namespace tern {

/// A number of ranks and the groups that they make: --ranks, --tensor-parallel, --context-parallel, --expert-parallel.
struct GroupSizes {
  int ranks = 1, tensor = 1, context = 1, expert = 1;
};
/// The settings' own.
GroupSizes group_sizes(const TrainSettings&);
/// The settings with other groups. As in train_settings, the groups of sums and the micro-batch follow unless they are options
/// (TrainSettings::fixed_groups, fixed_micro_batch).
TrainSettings with_groups(TrainSettings, const GroupSizes&);

/// The nearest --seq whose rows the groups share out in equal parts, and which the model takes: above the present one, else below; 0: none.
int64_t nearest_seq(const TrainSettings&, const ModelSpec&);

/// Whether ranks make such groups, sum the step's micro-batches in its order and have equal parts of its rows, and whether they can share
/// out the model. `spec`: nullptr: a model that is not known, which is not asked.
bool groups_run(const TrainSettings&, const ModelSpec* spec);

/// What to do where a number of groups does not run: other numbers of `axis` that run on as many ranks, at most eight, and the nearest --ranks
/// that runs with this number ("choose 2 or 4, or --ranks 8"); else both ("choose 2 and --ranks 2"); else "leave it out", with other sizes
/// of the batch where it takes these. Each number that is named to be chosen runs (groups_run).
std::string group_advice(const TrainSettings&, const ModelSpec*, int GroupSizes::*axis);

}  // namespace tern
