#pragma once
// What the compute threads keep between calls (kernels/cpu/thread_scratch.h), and what a library takes while they
// multiply. These bytes are no tensors, so no arena counts them, but they are resident and grow with the threads.

#include <cstdint>

#include "model/unit.h"

namespace tern {

/// The largest passes through a model that threads will make.
struct ThreadWork {
  DType dtype = DType::f32;
  Multiply multiply = Multiply::exact;
  int64_t tokens = 0;    // rows of a pass, at most
  int64_t sequence = 0;  // rows of one sequence, at most
  bool gradients = false, in_integers = false;
};
struct ThreadMemory {
  int64_t kept = 0;     // between calls
  int64_t library = 0;  // during a product, beside it
  int64_t total() const { return kept + library; }
};
/// The most bytes that all compute threads together hold after and during these passes: the most that any kernel of any unit takes on
/// the calling thread, plus, for each other thread, the most that any kernel takes there. None for f64, which runs on plain loops.
ThreadMemory thread_memory(const ModelSpec&, const ThreadWork&);

}  // namespace tern
