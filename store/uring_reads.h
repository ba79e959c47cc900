#pragma once
// Reads by io_uring: a long one as many short ones that are on their way at the same time, so that one thread keeps a disk as
// busy as several threads of pread do.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "store/block_files.h"

namespace tern {

/// Thread-safe: each call has a ring of its own, which is kept for the next.
class UringReads {
 public:
  virtual ~UringReads() = default;
  /// As pread: the bytes read without a gap from `offset` on, or, where there are none, a negated errno. Offset, length and
  /// address are multiples of the file's alignment.
  virtual int64_t read(int fd, int64_t offset, std::span<std::byte> into) = 0;
};

/// Null where this process cannot read by io_uring; uring_refusal says why.
std::unique_ptr<UringReads> make_uring_reads();
/// Why it cannot, for people: the kernel's answer, or that tern was built without io_uring. Empty: it can.
std::string uring_refusal();

struct OpenedUring {
  std::unique_ptr<BlockFiles> files;  // null: refused
  std::string refusal;                // then why
};
/// Opens files past the page cache, to be read by io_uring. Errors: bad_file, naming the file.
OpenedUring open_uring_blocks(const std::vector<std::string>& paths);

/// What a long read gives, up to the first gap. `results`: of each of its short reads the bytes, or
/// a negated errno; each short read asks for `piece` bytes, the last one for `last`.
int64_t bytes_without_gap(std::span<const int32_t> results, int64_t piece, int64_t last);

}  // namespace tern
