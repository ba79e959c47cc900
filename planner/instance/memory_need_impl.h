#pragma once
// How much memory an instance lacks.

#include <cstdint>

#include "planner/instance/stage_labels_impl.h"

namespace tern {

/// The least bytes that, added to every tier of every stage, let some assignment keep the stages' rules.
struct MemoryNeed {
  int64_t missing = 0;  // ≤ 0: fits
  int stage = 0;
  Tier tier = Tier::device;
  Assignment assignment;  // one that needs no more; empty if the budget's time was over before it was known
};
MemoryNeed memory_need(const Chain&, const Budget&);

}  // namespace tern
