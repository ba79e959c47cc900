#pragma once
// Reads one extent whole, whatever single reads return.

#include <cstddef>
#include <cstdint>
#include <span>

#include "store/block_files.h"
#include "store/extent.h"

namespace tern {

/// Bytes that `into` of read_extent must have for an extent of `bytes` bytes anywhere in its file.
constexpr int64_t room_for(int64_t bytes, int64_t alignment) { return (bytes + 2 * alignment - 2) & -alignment; }

struct ReadExtent {
  std::span<const std::byte> bytes;  // of the extent, within what was given
  int64_t read = 0;                  // bytes read from the disk, including what lies beside the extent in its blocks
};
/// Reads the blocks that hold the extent to `into`, which begins at a multiple of the alignment. After a short read it goes on
/// where that ended; an interrupted read is repeated.
/// Errors  bad_file, naming file and place: what the system reports; a file that ends before the extent does, because
///         another program has cut it short.
ReadExtent read_extent(BlockFiles&, const Extent&, std::span<std::byte> into);

}  // namespace tern
