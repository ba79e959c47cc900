#include "base/pages.h"

#include <cerrno>
#include <cstdint>
#include <cstring>

#if defined(__linux__)
#include <sys/mman.h>
#include <unistd.h>
#endif

#include "base/error.h"
#include "base/sanitized.h"

namespace tern {

bool takes_pages() {
#if defined(__linux__) && !defined(TERN_SANITIZED)
  return true;
#else
  return false;
#endif
}

#if defined(__linux__)

size_t page_bytes() {
  static const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  return page;
}

void unmap_pages(void* begin, size_t bytes) {
  if (bytes == 0 || ::munmap(begin, bytes) == 0) return;
  // A hole splits a mapping, and the system counts mappings. The pages go back all the same; the addresses stay ours.
  const bool too_many = errno == ENOMEM && ::madvise(begin, bytes, MADV_DONTNEED) == 0;
  TERN_CHECK(too_many, "unmap_pages: {} bytes at {}: {}", bytes, begin, std::strerror(errno));
}

void* map_pages(size_t bytes) {
  const size_t spare = bytes >= kHugePage ? kHugePage : 0;
  void* const mapped = ::mmap(nullptr, bytes + spare, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  auto* begin = static_cast<char*>(mapped);
  if (spare == 0) return begin;
  const size_t before = (kHugePage - reinterpret_cast<uintptr_t>(begin) % kHugePage) % kHugePage;
  unmap_pages(begin, before);
  begin += before;
  unmap_pages(begin + bytes, spare - before);
#if defined(MADV_HUGEPAGE)
  ::madvise(begin, bytes, MADV_HUGEPAGE);  // advice: where it is refused, small pages serve
#endif
  return begin;
}

bool move_pages(void* from, size_t bytes, void* to) {
  return ::mremap(from, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to;
}

#else

size_t page_bytes() { return 4096; }
void* map_pages(size_t) { return nullptr; }
void unmap_pages(void*, size_t) {}
bool move_pages(void*, size_t, void*) { return false; }

#endif

}  // namespace tern
