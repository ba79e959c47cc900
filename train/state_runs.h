#pragma once
// Where the elements that a rank keeps of a checkpoint's tensor are in the whole tensor. Ranks read and write only these runs of elements,
// so no rank needs memory for a whole tensor of which it keeps a part.

#include <cstdint>
#include <functional>

#include "train/state_tensors.h"
#include "train/tensor_place.h"

namespace tern {

/// Elements that are consecutive both in the whole tensor and in StateTensor::own.
struct StateRun {
  int64_t whole = 0, own = 0;  // the first element's number
  int64_t count = 0;           // at least 1
};
using VisitRun = std::function<void(const StateRun&)>;

/// All that this rank keeps, ascending in `whole` and in `own`. Elements of StateTensor::own beyond this rank's part of the
/// whole (rows of a table beyond the vocabulary) are in no run.
void for_each_kept_run(const StateTensor&, const TensorPlace&, const VisitRun&);
/// The runs that this rank writes: over all ranks each element of the whole once. An element that several ranks keep is written
/// by the rank that StateTensor::owners names (in a tensor group: by the first rank that keeps it); without owners, by rank 0.
void for_each_written_run(const StateTensor&, int rank, const TensorPlace&, const VisitRun&);

}  // namespace tern
