#pragma once
// Memory in whole pages from the system, for what is large and kept. What is freed goes back to the system at once, which the
// C library does not promise, and huge pages are asked for.

#include <cstddef>

namespace tern {

/// Bytes of the system's smallest page, a power of two: 4 KiB, on some aarch64 kernels 64 KiB.
size_t page_bytes();
/// Whether memory should be taken this way here. Not under a sanitizer, which does not notice accesses beyond the end of such
/// memory.
bool takes_pages();
/// `bytes` (whole pages) of zeros; null if the system has none. From 2 MiB on the memory starts at a huge page's boundary and
/// asks for huge pages: one page fault instead of 512, and far fewer TLB misses.
void* map_pages(size_t bytes);
/// Gives back a part of what map_pages gave; it begins and ends at page boundaries. Errors: TERN_CHECK, if they are not.
void unmap_pages(void* begin, size_t bytes);

}  // namespace tern
