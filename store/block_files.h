#pragma once
// Files that are read in blocks, past the page cache where the file system lets us. A seam: tests slow it down, cut it
// short and let it fail (store/blocks_testing.h).

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tern {

/// direct: O_DIRECT; the page cache keeps no page of the file. buffered: through the page cache, which is told to drop at once
/// what was read.
enum class ReadWay : uint8_t { direct, buffered };
std::string_view name_of(ReadWay);

/// Implementations are thread-safe.
class BlockFiles {
 public:
  virtual ~BlockFiles() = default;
  /// The alignment, a power of two: offsets, lengths and addresses of a read are multiples of it.
  virtual int64_t alignment() const = 0;
  /// Reads once, as pread does. Returns the number of bytes read, which may be fewer than asked; 0 behind the file's end; or a
  /// negated errno.
  virtual int64_t read(int file, int64_t offset, std::span<std::byte> into) = 0;
  virtual const std::string& path(int file) const = 0;
};

struct OpenedBlocks {
  std::unique_ptr<BlockFiles> files;
  ReadWay way = ReadWay::direct;
  std::string note;  // why it is not the way that was wanted; else empty
};
/// Opens them all one way. Where a file system refuses direct reads (tmpfs, some network and overlay ones), all are read
/// buffered, and `note` says so. Errors: bad_file, naming the file.
OpenedBlocks open_blocks(const std::vector<std::string>& paths, ReadWay wanted = ReadWay::direct);

}  // namespace tern
