#pragma once
// Worker: what one rank computes with. Several threads of a process can be workers at the same time: each has its own memory and team of
// threads, and is given a clock and a flag to stop by.

#include <atomic>
#include <memory>

#include "base/clock.h"
#include "base/threads.h"
#include "comm/comm.h"
#include "tensor/arena.h"

namespace tern {

inline const std::atomic<bool> kNeverStops = false;

/// Made on the thread that computes, after the number of threads of its team was set there (OpenMP keeps this number for each
/// thread that starts teams). A Worker stays on that thread.
struct Worker {
  std::shared_ptr<Comm> world = make_solo_comm();  // all ranks of the run; for groups of ranks see comm/group.h
  Arena arena;                                     // only for buffers and temporaries of this worker's passes
  Clock& clock = real_clock();
  const std::atomic<bool>& stop =
      kNeverStops;                      // true: stop at the next point where the work is complete (a step, a batch)
  int threads = num_compute_threads();  // of the team
  int processes_here =
      0;  // how many of the world's ranks, each a process, run on this machine; 0: the ranks are threads of this process

  int rank() const { return world->rank(); }
};

}  // namespace tern
