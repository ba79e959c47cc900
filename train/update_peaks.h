#pragma once
// Of a step whose ranks share out parameters: what each of them needs to update its own.

#include "program/simulate.h"
#include "train/settings.h"

namespace tern {

/// The highest moments of a step, all ranks together. step: of one replica, all devices (program/lower.h). Its
/// UPDATE is counted for a rank that keeps the whole unit; where replicas share parameters out and the rule has
/// temporaries, each rank's is counted by the parameters of which that rank keeps some. Errors: those of shares_of.
RankBytes peak_of_step(const ModelSpec&, const Program& step, const TrainSettings&);

}  // namespace tern
