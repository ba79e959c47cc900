#pragma once
// A second lower bound of an instance's makespan, for judging a plan without trusting the search that made it. It
// shares no code with the search: plain loops, its own walk through the pipeline, its own price of memory. Weaker where
// the search looks harder, never above the truth.

#include <cstdint>

#include "plan/instance.h"

namespace tern {

/// What closed a choice, or how far the audit came.
enum class AuditedBy : uint8_t {
  memory,  // the least bytes of its layers have no room
  work,    // the devices' work, on average, or of the fullest one
  paths,   // a mixture of paths through its operations, memory priced
  labels,  // every stage's labels (gpipe and 1f1b, where they are few)
  open,    // bound is below what was asked
};

struct AuditedBound {
  AuditedBy by = AuditedBy::open;
  int64_t bound = 0;  // ps: no assignment that fits has a smaller makespan; at least `wanted` unless open
};

/// Stops as soon as `wanted` is proven. Shapes  as Instance; resharding inside a stage, entry costs and the host link
/// may be there, and only make the bound weaker. Errors: usage, as check_instance.
AuditedBound audit_bound(const Instance&, int64_t wanted);
/// The devices' work alone, on average: weaker, and microseconds instead of milliseconds. `work` or `open`; the
/// instance is not checked.
AuditedBound audit_work_bound(const Instance&, int64_t wanted);

}  // namespace tern
