#pragma once
// Memory in whole pages, directly from the system, for large blocks that live long. Freed pages go back to the system at
// once, which the C library does not promise, and huge pages are requested.

#include <cstddef>

namespace tern {

constexpr size_t kHugePage = size_t{2} << 20;  // bytes of a huge page of x86-64 and of most aarch64 systems

/// Bytes of the system's smallest page, a power of two: 4 KiB, on some aarch64 kernels 64 KiB.
size_t page_bytes();
/// Whether to take memory this way: on Linux, but not under a sanitizer, which would not notice accesses beyond the end of
/// such memory.
bool takes_pages();
/// `bytes` zero bytes, a multiple of page_bytes(); null: the system has no memory left. From 2 MiB on, the memory starts at
/// the boundary of a huge page and requests huge pages: one page fault instead of 512, and far fewer TLB misses.
void* map_pages(size_t bytes);
/// Gives back a part of a block from map_pages, from one page boundary to another. Errors: bug: they are not page boundaries.
void unmap_pages(void* begin, size_t bytes);
/// Moves whole pages from one block to another, which loses those that it had there: no page is cleared. The addresses at `from` are given back.
/// False: the system refuses; then nothing is moved, and the addresses at `to` may belong to nobody.
bool move_pages(void* from, size_t bytes, void* to);

}  // namespace tern
