#pragma once
// Sets how many threads OpenMP uses. No other file does.

namespace tern {

/// Sets the number of threads of all teams that the calling thread starts from now on, and returns it. 0: as many as the CPUs that this process may use
/// (affinity, control group quota). Teams of other threads have numbers of their own.
int set_compute_threads(int requested);

}  // namespace tern
