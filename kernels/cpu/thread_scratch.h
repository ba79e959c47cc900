#pragma once
// Memory that a thread keeps between calls: packed factors, tiles of scores. One buffer per thread for all kernels, as
// none of them calls another while it holds it; it grows to the largest size asked for.

#include <cstdint>

namespace tern {

/// At least `bytes` bytes on a cache line; contents undefined. Valid until this thread asks again.
/// Errors: std::bad_alloc.
void* thread_scratch(int64_t bytes);

}  // namespace tern
