#pragma once
// A file of one process, read and written in blocks past the page cache: what does not fit in memory while it changes. It has no
// name, so it ends with the process however that ends.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "store/block_files.h"

namespace tern {

/// It has one file, number 0. Implementations are thread-safe.
class ScratchFile : public BlockFiles {
 public:
  /// Writes once, as pwrite does; offset, length and address are multiples of the alignment. Returns the bytes written, which
  /// may be fewer than given, or a negated errno.
  virtual int64_t write(int64_t offset, std::span<const std::byte> from) = 0;
};

struct OpenedScratch {
  std::unique_ptr<ScratchFile> file;
  ReadWay way = ReadWay::direct;
  std::string note;  // why it is not the way that was wanted; else empty
};
/// A file of `bytes` zeros on the disk of `directory`, whose room is reserved where the file system can. Where direct reads are refused it goes through
/// the page cache, and `note` says so. `holds`: what messages call its contents. Errors: does_not_fit, bad_file, naming the directory.
OpenedScratch open_scratch(const std::string& directory, int64_t bytes, ReadWay wanted = ReadWay::direct,
                           std::string_view holds = "optimizer states");

/// Writes all of `from` at `offset`, both multiples of the alignment. A short write goes on where it ended, at a whole block; an
/// interrupted one is repeated. Errors: does_not_fit for a full disk, else bad_file; naming file and byte. `left`: what the
/// message says is still good after the failure; empty: nothing.
void write_blocks(ScratchFile&, int64_t offset, std::span<const std::byte> from,
                  std::string_view left = "the last checkpoint stands");

}  // namespace tern
