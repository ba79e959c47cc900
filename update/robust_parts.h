#pragma once
// Aggregating vectors that are cut over ranks: each rank has its part of what every worker sent, and adds up with the others only
// the numbers that choices are made by. The rules are those of update/aggregate.h.

#include <functional>
#include <span>

#include "spec/layout.h"
#include "tensor/tensor.h"
#include "update/aggregate.h"
#include "update/robust.h"

namespace tern {

/// Each number becomes the sum over ranks of theirs, in the order of ranks; the same on all.
using AddOverRanks = std::function<void(std::span<double>)>;

/// What a part of a step is aggregated with.
struct RobustPart {
  const RobustConfig& config;
  int64_t step;         // from 1
  Interval elements{};  // of the whole vector, that the part is
  std::span<double>
      point{};      // scratch as long as the part, of those rules that move a point (robust_staging_bytes); else empty
  double unit = 1;  // what clip_radius is a multiple of
};

/// The aggregate takes the place of the first worker's row. `centre`: where clipping starts, and then the aggregate; else empty.
/// Shapes  rows: a row for each worker, all of the part's length; centre: as long, or empty.
/// Order   sums over elements: blocks of kUpdateBlock in order, then ranks in order. mean: the tree of comm/'s sums.
template <class T>
void aggregate_part(const RobustPart&, std::span<const std::span<T>> rows, std::span<T> centre, const AddOverRanks&);

/// The attackers' rows become what they send, of the others' rows and their own.
template <class T>
void attack_part(const RobustPart&, std::span<const std::span<T>> rows);

}  // namespace tern
