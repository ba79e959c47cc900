#pragma once
// Small instances of every schedule and feature, drawn by a seed.

#include "planner/instance/random_instance.h"

namespace tern {

inline RandomInstance mixed_instance(uint64_t seed) {
  RandomInstance r{.schedule = kPipelineSchedules[seed % kPipelineSchedules.size()]};
  r.chunks = least_chunks(r.schedule);
  r.stages = 1 + static_cast<int>(seed / 8 % (r.chunks == 2 ? 2 : 3));
  r.layers = r.stages * r.chunks + static_cast<int>(seed / 3 % 3);
  r.strategies = 2 + static_cast<int>(seed / 5 % 2);
  r.micro = r.stages * (1 + static_cast<int>(seed / 7 % 4));
  r.equal_layers = seed % 3 == 0, r.ends = seed % 2 == 0, r.resharding = seed % 3 != 1;
  r.tails = seed % 4 != 3, r.begins = seed % 5 < 2, r.entries = seed % 5 > 2, r.transients = seed % 6 == 0;
  r.host_link = seed % 7 > 3, r.tiers = seed % 7 > 4;
  r.split = splits_backward(r.schedule), r.link = seed % 9 == 0 ? 300 : 20;
  r.types = r.link_classes = seed % 11 < 3 ? 2 : 1;
  r.memory = 0.2 + 0.1 * static_cast<double>(seed % 8);
  return r;
}

}  // namespace tern
