#pragma once
// How much memory an instance lacks.

#include <cstdint>

#include "planner/instance/stage_labels_impl.h"

namespace tern {

/// The least bytes that must be added to every tier of every stage for some assignment to keep the stages' rules.
struct MemoryNeed {
  int64_t missing = 0;  // ≤ 0: fits
  int stage = 0;
  Tier tier = Tier::device;
  Assignment assignment;  // keeps the rules once the bytes are added; empty: the time was over before it was known
};
/// What the chain lacks.
MemoryNeed memory_need(const Chain&, const Budget&);

}  // namespace tern
