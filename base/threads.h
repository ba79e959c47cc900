#pragma once
// OpenMP owns the cores. Each thread that starts teams has a team size of its own; apps/ sets it (apps/threads.h), code below
// apps/ only reads it.

namespace tern {

/// Threads of the next team that the calling thread starts.
int num_compute_threads();

}  // namespace tern
