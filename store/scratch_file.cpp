#include "store/scratch_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/error.h"
#include "base/io.h"

namespace tern {
namespace {

// Multiples of a page serve every disk with sectors up to it.
constexpr int64_t kScratchAlignment = 4096;

class PosixScratch final : public ScratchFile {
 public:
  PosixScratch(int fd, std::string path, ReadWay way) : fd_(fd), path_(std::move(path)), way_(way) {}
  ~PosixScratch() override { ::close(fd_); }
  PosixScratch(const PosixScratch&) = delete;
  PosixScratch& operator=(const PosixScratch&) = delete;

  int64_t alignment() const override { return kScratchAlignment; }
  const std::string& path(int) const override { return path_; }
  int64_t read(int, int64_t offset, std::span<std::byte> into) override {
    const ssize_t got = ::pread(fd_, into.data(), into.size(), offset);
    if (got < 0) return -errno;
    if (way_ == ReadWay::buffered) ::posix_fadvise(fd_, offset, got, POSIX_FADV_DONTNEED);
    return got;
  }
  int64_t write(int64_t offset, std::span<const std::byte> from) override {
    const ssize_t put = ::pwrite(fd_, from.data(), from.size(), offset);
    if (put < 0) return -errno;
    // What is not on the disk yet cannot be dropped from the page cache, where it would pile up.
    if (way_ == ReadWay::buffered) {
      if (::fdatasync(fd_) != 0) return -errno;
      ::posix_fadvise(fd_, offset, put, POSIX_FADV_DONTNEED);
    }
    return put;
  }

 private:
  int fd_;
  std::string path_;
  ReadWay way_;
};

// A file without a name; where the file system has none, its name goes at once. Or its errno, negated.
int open_nameless(const std::string& directory, ReadWay way) {
  const int direct = way == ReadWay::direct ? O_DIRECT : 0;
  const int fd = ::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC | direct, 0600);
  if (fd >= 0) return fd;
  if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL) return -errno;
  std::string path = join_path(directory, "tern-scratch-XXXXXX");
  const int named = ::mkostemp(path.data(), O_CLOEXEC);
  if (named < 0) return -errno;
  ::unlink(path.c_str());
  if (direct == 0 || ::fcntl(named, F_SETFL, O_DIRECT) == 0) return named;
  const int error = errno;
  ::close(named);
  return -error;
}

// 0, or the errno. Zeros either way: of room that is reserved, or of a hole.
int reserve(int fd, int64_t bytes) {
  if (bytes == 0 || ::fallocate(fd, 0, 0, bytes) == 0) return 0;
  if (errno != EOPNOTSUPP && errno != ENOSYS) return errno;
  return ::ftruncate(fd, bytes) == 0 ? 0 : errno;
}

// Some refuse at the first read, not when the file is opened. 0, or the errno.
int try_read(int fd) {
  constexpr auto kSize = static_cast<size_t>(kScratchAlignment);
  void* block = std::aligned_alloc(kSize, kSize);
  if (!block) return ENOMEM;
  const ssize_t got = ::pread(fd, block, kSize, 0);
  const int error = got < 0 ? errno : 0;
  std::free(block);
  return error;
}

}  // namespace

OpenedScratch open_scratch(const std::string& directory, int64_t bytes, ReadWay wanted, std::string_view holds) {
  const std::string path = join_path(directory, fmt::format("({})", holds));
  std::string note;
  int error = 0;
  for (const ReadWay way : {wanted, ReadWay::buffered}) {
    const int fd = open_nameless(directory, way);
    error = fd < 0 ? -fd : reserve(fd, bytes);
    if (error == 0) error = try_read(fd);
    if (error == 0) return {std::make_unique<PosixScratch>(fd, path, way), way, std::move(note)};
    if (fd >= 0) ::close(fd);
    if (error != EINVAL || way == ReadWay::buffered) break;
    note = fmt::format(
        "{}: its file system refuses direct reads (O_DIRECT); {} go through the page cache, which costs more time "
        "and processor",
        directory, holds);
  }
  throw_io_error("reserve room in", directory, error);
}

void write_blocks(ScratchFile& file, int64_t offset, std::span<const std::byte> from, std::string_view left) {
  const int64_t alignment = file.alignment();
  TERN_CHECK(offset % alignment == 0 && std::ssize(from) % alignment == 0, "write_blocks: {} bytes at {}", from.size(),
             offset);
  int64_t done = 0;
  while (done < std::ssize(from)) {
    const int64_t put = file.write(offset + done, from.subspan(static_cast<size_t>(done)));
    if (put == -EINTR || put == -EAGAIN) continue;
    const int64_t whole = put > 0 ? put & -alignment : put;  // what ended within a block is written again
    if (whole <= 0) {
      const int error = put < 0 ? static_cast<int>(-put) : EIO;
      throw Error(error == ENOSPC || error == EDQUOT ? ErrorKind::does_not_fit : ErrorKind::bad_file,
                  "{}: writing {} bytes at byte {} failed: {}; look at the disk and its log{}{}", file.path(0),
                  from.size(), offset + done, std::strerror(error), left.empty() ? "" : "; ", left);
    }
    done += whole;
  }
}

}  // namespace tern
