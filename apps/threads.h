#pragma once
// The one place that says how many cores OpenMP gets.

namespace tern {

/// Sets the number of threads of the teams that the calling thread starts from now on, and returns it. 0: the CPUs this
/// process may use (affinity, control group quota). Other threads, and teams of threads started later, have their own.
int set_compute_threads(int requested);

}  // namespace tern
