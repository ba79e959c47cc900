#include "store/read_extent.h"

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace tern {

ReadExtent read_extent(BlockFiles& files, const Extent& extent, std::span<std::byte> into) {
  const int64_t alignment = files.alignment();
  const BlockRange blocks = blocks_of(extent, alignment);
  TERN_CHECK(blocks.bytes <= static_cast<int64_t>(into.size()), "read_extent: {} bytes of blocks into {}", blocks.bytes,
             into.size());
  const int64_t needed = blocks.skip + extent.bytes;  // the file may end within the last block
  int64_t have = 0, read = 0;
  while (have < needed) {
    const int64_t at = have & -alignment;  // a short read may end within a block
    const int64_t got = files.read(extent.file, blocks.offset + at,
                                   into.subspan(static_cast<size_t>(at), static_cast<size_t>(blocks.bytes - at)));
    if (got == -EINTR || got == -EAGAIN) continue;
    if (got < 0)
      throw Error(ErrorKind::bad_file, "{}: reading {} bytes at byte {} failed: {}; look at the disk and its log",
                  files.path(extent.file), extent.bytes, extent.offset, std::strerror(static_cast<int>(-got)));
    if (at + got <= have)
      throw Error(ErrorKind::bad_file,
                  "{}: ends at byte {}, within bytes {} to {} that the model needs; another program has cut the file "
                  "short while it was in use: put it back and start again",
                  files.path(extent.file), blocks.offset + at + got, extent.offset, extent.offset + extent.bytes);
    have = at + got;
    read += got;
  }
  return {into.subspan(static_cast<size_t>(blocks.skip), static_cast<size_t>(extent.bytes)), read};
}

}  // namespace tern
