#pragma once
// Compute threads are teams of OpenMP. Each thread that starts teams has its own team size. Only apps/ sets team sizes
// (apps/threads.h); other code only reads them.

namespace tern {

/// The number of threads of the next team that the calling thread starts.
int num_compute_threads();

}  // namespace tern
