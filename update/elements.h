#pragma once
// A loop over the elements of a vector on all threads.

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/parallel.h"

namespace tern {

/// Calls each(i) for every element, on all threads.
template <class Each>
void for_each_element(size_t count, Each each) {
  parallel_ranges(static_cast<int64_t>(count), kParallelGrain, 64, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) each(i);
  });
}

}  // namespace tern
