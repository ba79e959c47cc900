#pragma once
// Lower bounds of outer choices that need no search.

#include <cstdint>

#include "planner/outer/candidates_impl.h"

namespace tern {

/// A lower bound, ps, the largest of: the mean of the devices' work; this mean with a price on memory; if a schedule begins
/// with forwards that fill the pipeline (fills_first), the fill and the work after it. `capacity`: device bytes of one device.
int64_t cheap_bound(const SpaceOfChoices&, const Candidate&, int64_t capacity);
/// A lower bound, ps: the least T for which, for each kind of layer, the devices have room for all layers of this kind.
/// A layer takes the least work + `mu`·bytes (ps per byte). A device offers T + mu·capacity, less in a later stage.
int64_t crowding_bound(const SpaceOfChoices&, const Candidate&, double mu);

/// A lower bound of every choice, ps: the model's products, shared out over all devices at peak rate.
int64_t work_bound(const ModelSpec&, const Cluster&, const TrainJob&);

}  // namespace tern
