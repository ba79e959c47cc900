#pragma once
// Whether a run has to end before its last step.

#include "comm/worker.h"
#include "train/settings.h"

namespace tern {

/// Whether the run was asked to stop, or --max-seconds have passed since `begin_ns` on the worker's clock.
inline bool should_stop(const Worker& worker, const TrainSettings& s, int64_t begin_ns) {
  return worker.stop || (s.max_seconds && seconds_between(begin_ns, worker.clock.now_ns()) >= *s.max_seconds);
}

}  // namespace tern
