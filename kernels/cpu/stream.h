#pragma once
// A streaming read of memory and nothing else; `tern bench` compares memory-bound work with it. Twin: kernels/ref/stream_ref.h.

#include <span>

namespace tern {

/// Σ x, read once from front to back by every compute thread (each a contiguous part), in several vector chains.
/// Traffic  4·size bytes read.
/// Order    fixed for a size and a number of threads; for timing, not for results.
float stream_sum(std::span<const float> x);

/// The same by the calling thread alone, `times` times over: for working sets that lie in a cache.
float stream_sum_again(std::span<const float> x, int times);

}  // namespace tern
