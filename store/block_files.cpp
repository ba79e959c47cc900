#include "store/block_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>

#include <fmt/format.h>

#include "base/io.h"
#include "store/uring_reads.h"

namespace tern {
namespace {

// Multiples of a page serve every disk with sectors up to it; a file system may ask for more.
constexpr int64_t kLeastAlignment = 4096;

class PosixBlocks final : public BlockFiles {
 public:
  explicit PosixBlocks(ReadWay way, std::unique_ptr<UringReads> uring = nullptr)
      : way_(way), uring_(std::move(uring)) {}
  ~PosixBlocks() override {
    for (const File& file : files_) ::close(file.fd);
  }
  PosixBlocks(const PosixBlocks&) = delete;
  PosixBlocks& operator=(const PosixBlocks&) = delete;

  // The errno of what failed, or 0.
  int open(const std::string& path) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | (way_ == ReadWay::direct ? O_DIRECT : 0));
    if (fd < 0) return errno;
    files_.push_back({fd, path});
    if (way_ == ReadWay::buffered) return 0;
#ifdef STATX_DIOALIGN
    struct statx facts {};
    if (::statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &facts) == 0 && (facts.stx_mask & STATX_DIOALIGN) != 0)
      alignment_ = std::max({alignment_, static_cast<int64_t>(facts.stx_dio_offset_align),
                             static_cast<int64_t>(facts.stx_dio_mem_align)});
#endif
    // Some refuse at the first read, not when the file is opened.
    const auto size = static_cast<size_t>(alignment_);
    void* block = std::aligned_alloc(size, size);
    if (!block) return ENOMEM;
    const int64_t got = read(static_cast<int>(files_.size()) - 1, 0, {static_cast<std::byte*>(block), size});
    std::free(block);
    return got < 0 ? static_cast<int>(-got) : 0;
  }

  int64_t alignment() const override { return alignment_; }
  const std::string& path(int file) const override { return files_.at(static_cast<size_t>(file)).path; }
  int64_t read(int file, int64_t offset, std::span<std::byte> into) override {
    const int fd = files_.at(static_cast<size_t>(file)).fd;
    if (uring_) return uring_->read(fd, offset, into);
    const ssize_t got = ::pread(fd, into.data(), into.size(), offset);
    if (got < 0) return -errno;
    if (way_ == ReadWay::buffered) ::posix_fadvise(fd, offset, got, POSIX_FADV_DONTNEED);
    return got;
  }

 private:
  struct File {
    int fd;
    std::string path;
  };
  ReadWay way_;
  std::unique_ptr<UringReads> uring_;
  std::vector<File> files_;
  int64_t alignment_ = kLeastAlignment;
};

// Nothing: the file system does not read this way.
std::optional<OpenedBlocks> try_open(const std::vector<std::string>& paths, ReadWay way,
                                     std::unique_ptr<UringReads> uring = nullptr) {
  auto files = std::make_unique<PosixBlocks>(way, std::move(uring));
  for (const std::string& path : paths) {
    const int error = files->open(path);
    if (error == EINVAL && way == ReadWay::direct) return {};
    if (error != 0) throw_io_error("read", path, error);
  }
  return OpenedBlocks{std::move(files), way, ""};
}

}  // namespace

std::string_view name_of(ReadWay way) { return way == ReadWay::direct ? "direct" : "buffered"; }

OpenedBlocks open_blocks(const std::vector<std::string>& paths, ReadWay wanted) {
  if (auto opened = try_open(paths, wanted)) return std::move(*opened);
  OpenedBlocks opened = std::move(*try_open(paths, ReadWay::buffered));
  opened.note = fmt::format(
      "{}: its file system refuses direct reads (O_DIRECT); it is read through the page cache, which costs more time "
      "and "
      "processor",
      paths.front());
  return opened;
}

OpenedUring open_uring_blocks(const std::vector<std::string>& paths) {
  if (std::string refusal = uring_refusal(); !refusal.empty()) return {nullptr, std::move(refusal)};
  auto opened = try_open(paths, ReadWay::direct, make_uring_reads());
  if (!opened) return {nullptr, fmt::format("{}: its file system refuses direct reads (O_DIRECT)", paths.front())};
  return {std::move(opened->files), ""};
}

}  // namespace tern
