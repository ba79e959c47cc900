#pragma once
// For tests: a Comm on each of so many ranks as threads.

#include <functional>

#include "comm/comm.h"
#include "comm/thread_world.h"

namespace tern {

inline void with_comms(int ranks, const ThreadWorldOptions& options, const std::function<void(Comm&)>& work) {
  run_ranks(ranks, options, [&](std::unique_ptr<Transport> transport) {
    Comm comm(std::move(transport));
    work(comm);
  });
}

}  // namespace tern
