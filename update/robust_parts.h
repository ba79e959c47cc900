#pragma once
// Aggregating vectors that are cut over ranks: each rank has one part of every worker's vector. Only the numbers that decide a
// rule's choice, such as distances, are summed over ranks. The rules are those of update/aggregate.h.

#include <functional>
#include <span>

#include "spec/layout.h"
#include "tensor/tensor.h"
#include "update/aggregate.h"
#include "update/robust.h"

namespace tern {

/// Replaces each number by its sum over all ranks, added in the order of ranks; all ranks get the same bits.
using AddOverRanks = std::function<void(std::span<double>)>;

/// What aggregate_part needs besides the rows.
struct RobustPart {
  const RobustConfig& config;
  int64_t step;         // from 1
  Interval elements{};  // where the part lies in the whole vector
  std::span<double>
      point{};      // scratch as long as the part, for rules that move a point (geometric median, clipping); else empty
  double unit = 1;  // clip_radius is a multiple of this length, and so is GeometricMedian::smooth
};

/// The aggregate replaces the first worker's row. `centre`, for centered clipping alone: on entry the point at which clipping starts,
/// on return the aggregate; empty for other rules.
/// Shapes  rows: a row for each worker, all of the part's length; centre: as long, or empty.
/// Order   sums over elements: blocks of kUpdateBlock in order, then ranks in order. mean: the tree of Comm's sums (comm/comm.h).
template <class T>
void aggregate_part(const RobustPart&, std::span<const std::span<T>> rows, std::span<T> centre, const AddOverRanks&);

/// The attackers' rows become what attackers send, which is computed from the others' rows and their own.
template <class T>
void attack_part(const RobustPart&, std::span<const std::span<T>> rows);

}  // namespace tern
