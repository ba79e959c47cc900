#pragma once
// Of a step whose ranks share out parameters: what each of them needs to update its own.

#include "program/simulate.h"
#include "train/settings.h"

namespace tern {

/// The highest moments of a step, all ranks together. step: of one replica, all devices (program/lower.h). Its UPDATE takes what whoever
/// keeps all of a unit's parameters takes; where replicas share them out, and the rule works with temporaries, each is counted by what
/// it keeps. Errors: those of shares_of.
RankBytes peak_of_step(const ModelSpec&, const Program& step, const TrainSettings&);

}  // namespace tern
