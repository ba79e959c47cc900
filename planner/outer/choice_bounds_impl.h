#pragma once
// Lower bounds of outer choices that need no search.

#include <cstdint>

#include "planner/outer/candidates_impl.h"

namespace tern {

/// A bound, ps, from the mean of the devices' work, with and without a price on memory, and from the fill of plain
/// schedules. `capacity`: device bytes of one device.
int64_t cheap_bound(const SpaceOfChoices&, const Candidate&, int64_t capacity);
/// A bound, ps, that counts whole layers: the least time in which the devices, each after its lead-in and with `mu` as
/// the price of a byte (ps), have places for all layers of a kind.
int64_t crowding_bound(const SpaceOfChoices&, const Candidate&, double mu);

/// A bound of all choices, ps: the model's products, shared out over all devices at their peak.
int64_t work_bound(const ModelSpec&, const Cluster&, const TrainJob&);

}  // namespace tern
