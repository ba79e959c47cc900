#pragma once
// A second lower bound of an instance's makespan, for judging a plan without trusting the search that made it. It has plain
// loops, its own walk through the pipeline and its own price of memory. It shares with the search only what defines the
// question: the instance's check, a schedule's order and prepare_pipeline. It may be lower than the search's bound, but never above the optimum.

#include <cstdint>

#include "plan/instance.h"

namespace tern {

/// The bound by which the audit closed a choice.
enum class AuditedBy : uint8_t {
  memory,  // even the least bytes of its layers do not fit
  work,    // the mean of the devices' work, or the work of the fullest device
  paths,   // a mixture of paths through its operations, with a price on memory
  labels,  // labels of every stage (gpipe and 1f1b, if the labels are few)
  open,    // it is not closed: the bound is below `wanted`
};

/// A bound and what gave it.
struct AuditedBound {
  AuditedBy by = AuditedBy::open;
  int64_t bound = 0;  // ps: no assignment that fits has a smaller makespan; at least `wanted` unless open
};

/// A lower bound of the makespan of assignments that fit; the audit stops as soon as `wanted` ps are proven. The instance may
/// have resharding inside a stage, entry costs and times of the host link; where the bound leaves them out, it is only weaker.
/// Errors: usage, as check_instance.
AuditedBound audit_bound(const Instance&, int64_t wanted);
/// The bound by the devices' mean work alone: weaker, but computed in microseconds instead of milliseconds. `by` is work or
/// open; the instance is not checked.
AuditedBound audit_work_bound(const Instance&, int64_t wanted);

}  // namespace tern
