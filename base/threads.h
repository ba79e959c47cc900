#pragma once
// OpenMP is the one owner of cores; this is the one place that says how many it gets.

namespace tern {

/// Sets the number of compute threads and returns it. 0: the CPUs this process may use (affinity, control group quota).
int set_compute_threads(int requested);
/// What the next parallel region will use.
int num_compute_threads();

}  // namespace tern
