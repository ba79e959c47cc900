#pragma once
// Which choices a search over plans looks at.

#include <cstdint>
#include <vector>

#include "plan/pinned.h"
#include "program/pipeline.h"

namespace tern {

/// Which choices are looked at. The members narrow the space of all choices; the proof holds for that sub-space alone.
struct SearchSpace {
  int64_t max_tensor = 64, max_context = 64, max_expert = 512;
  bool ulysses = true;
  int max_stages = 1024, max_chunks = 8;
  int64_t max_micro_batch = 16;
  std::vector<PipelineSchedule> schedules{kPipelineSchedules.begin(), kPipelineSchedules.end()};
  std::vector<int> zero{0, 1, 2, 3};
  std::vector<Recompute> recompute{Recompute::none, Recompute::attention, Recompute::full};
  /// Tiers where optimizer states and activations may lie. Pipelines with several chunks per stage keep both on the device.
  std::vector<Tier> states{Tier::device, Tier::host, Tier::disk};
  std::vector<Tier> activations{Tier::device, Tier::host, Tier::disk};
  /// All pins. The search obeys pins of the outer choice, PinnedAxes::even and PinnedAxes::framework. Pins of strategies (sharding,
  /// recomputation, offloading) act through the lists above, which the function `pin` narrows when it sets `pinned`.
  PinnedAxes pinned;
};

/// The space of only those choices that have these pinned axes. A limit that a pin exceeds is raised to the pin.
SearchSpace pin(SearchSpace, const PinnedAxes&);
/// The space of only those choices that this framework runs: layers=even, its schedules, strategies and numbers of devices.
SearchSpace for_framework(SearchSpace, Framework);

}  // namespace tern
