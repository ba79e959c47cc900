#pragma once
// The memory of a step whose ranks share out parameters. An UPDATE needs temporaries only for parameters of which its rank
// keeps a part.

#include "program/simulate.h"
#include "train/settings.h"

namespace tern {

/// The sum over all ranks of their peaks in a step. `step`: the lists of all devices of the pipeline (program/lower.h), with the
/// UPDATEs of a rank that keeps whole units. If replicas share parameters out and the rule has
/// temporaries, each rank's UPDATEs are counted with only the parameters of which that rank keeps a part. Errors: those of
/// shares_of.
RankBytes peak_of_step(const ModelSpec&, const Program& step, const TrainSettings&);

}  // namespace tern
