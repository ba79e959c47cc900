#pragma once
// OpenMP owns the cores. How many threads a team gets is a number of each thread that starts teams; apps/ sets it
// (apps/threads.h), and all below only asks.

namespace tern {

/// Threads of the next team that the calling thread starts.
int num_compute_threads();

}  // namespace tern
