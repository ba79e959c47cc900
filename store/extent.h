#pragma once
// Ranges of a model's files, and how they lie in blocks of a file system.

#include <cstdint>

namespace tern {

/// Bytes [offset, offset + bytes) of a file, by its number.
struct Extent {
  int file = 0;
  int64_t offset = 0, bytes = 0;
  friend bool operator==(const Extent&, const Extent&) = default;
};

/// The whole blocks that hold an extent, which begins `skip` bytes into them.
struct BlockRange {
  int64_t offset = 0, bytes = 0, skip = 0;
};
/// `alignment`: a power of two.
constexpr BlockRange blocks_of(const Extent& e, int64_t alignment) {
  const int64_t begin = e.offset & -alignment, end = (e.offset + e.bytes + alignment - 1) & -alignment;
  return {begin, end - begin, e.offset - begin};
}

}  // namespace tern
