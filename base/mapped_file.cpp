#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <utility>

#include "base/error.h"
#include "base/io.h"

namespace tern {
namespace {

#if defined(MADV_POPULATE_READ)
constexpr int kPopulateRead = MADV_POPULATE_READ;
#elif defined(__linux__)
constexpr int kPopulateRead = 22;  // older headers; older kernels refuse it
#else
constexpr int kPopulateRead = MADV_WILLNEED;
#endif

// What is mapped, for a signal handler. A slot is taken by its `begin`, and readable once `end` is set.
struct Slot {
  std::atomic<const std::byte*> begin = nullptr, end = nullptr;
  char path[256] = {};
};
Slot slots[1024];
static_assert(std::atomic<const std::byte*>::is_always_lock_free, "a signal handler reads them");

void remember(const std::byte* data, size_t size, const std::string& path) {
  for (Slot& slot : slots) {
    const std::byte* free = nullptr;
    if (!slot.begin.compare_exchange_strong(free, data)) continue;
    path.copy(slot.path, sizeof slot.path - 1);
    slot.path[std::min(path.size(), sizeof slot.path - 1)] = '\0';
    slot.end = data + size;
    return;
  }
}

void forget(const std::byte* data) {
  for (Slot& slot : slots)
    if (slot.begin == data) {
      slot.end = nullptr;
      slot.begin = nullptr;
      return;
    }
}

}  // namespace

const char* mapped_file_with(const void* address) {
  const auto* at = static_cast<const std::byte*>(address);
  for (const Slot& slot : slots)
    if (const std::byte* end = slot.end; end != nullptr && slot.begin <= at && at < end) return slot.path;
  return nullptr;
}

MappedFile::MappedFile(const std::string& path) : path_(path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a pipe without a writer would wait
  if (fd < 0) throw_io_error("open", path, errno);
  struct stat info {};
  int error = ::fstat(fd, &info) == 0 ? 0 : errno;
  void* data = nullptr;
  if (error == 0 && !S_ISREG(info.st_mode)) {
    ::close(fd);
    throw Error(ErrorKind::bad_file, "{}: {}; a plain file is needed here", path,
                S_ISDIR(info.st_mode) ? "is a directory" : "is no regular file and cannot be mapped");
  }
  if (error == 0 && info.st_size > 0) {
    data = ::mmap(nullptr, static_cast<size_t>(info.st_size), PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) error = errno;
  }
  ::close(fd);  // the mapping keeps the file
  if (error != 0) throw_io_error("map", path, error);
  data_ = static_cast<const std::byte*>(data);
  size_ = static_cast<size_t>(info.st_size);
  if (data_ != nullptr) remember(data_, size_, path_);
}

MappedFile::~MappedFile() {
  if (data_ == nullptr) return;
  forget(data_);
  ::munmap(const_cast<std::byte*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept { *this = std::move(other); }

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(path_, other.path_);
  return *this;
}

void MappedFile::advise(Advice advice, size_t begin, size_t count) const {
  if (data_ == nullptr || begin >= size_ || count == 0) return;
  static const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const size_t end = begin + std::min(count, size_ - begin);
  begin -= begin % page;
  int how = MADV_NORMAL;
  switch (advice) {
    case Advice::normal:
      how = MADV_NORMAL;
      break;
    case Advice::sequential:
      how = MADV_SEQUENTIAL;
      break;
    case Advice::random:
      how = MADV_RANDOM;
      break;
    case Advice::will_need:
      how = MADV_WILLNEED;
      break;
    case Advice::dont_need:
      how = MADV_DONTNEED;
      break;
    case Advice::populate:
      how = kPopulateRead;
      break;
  }
  if (::madvise(const_cast<std::byte*>(data_) + begin, end - begin, how) != 0 && how == kPopulateRead)
    how = MADV_WILLNEED;
  else
    return;
  ::madvise(const_cast<std::byte*>(data_) + begin, end - begin, how);
}

}  // namespace tern
