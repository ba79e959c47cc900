#pragma once
// Compute threads are teams of OpenMP. Each thread that starts teams has its own team size. Only apps/ sets team sizes
// (apps/threads.h); other code only reads them.

#include <memory>

namespace tern {

/// The number of threads of the next team that the calling thread starts.
int num_compute_threads();

/// While one lives, compute threads that wait sleep almost at once instead of spinning first, if they are as many as the process has cores:
/// reads of a disk need cores, too. With libgomp, which spins 100 turns and no more while it manages more threads than cores (its manual,
/// GOMP_SPINCOUNT): this keeps a team of two threads that sleep. Other libraries of OpenMP: no effect. Errors: std::system_error for the first
/// of them; libgomp ends the program if it gets no second.
class ShortWaits {
 public:
  ShortWaits();
  ~ShortWaits();

 private:
  struct Team;
  std::unique_ptr<Team> team_;
};

}  // namespace tern
