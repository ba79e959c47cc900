#include "base/io.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace tern {
namespace {

class RealFile : public IoFile {
 public:
  RealFile(const std::string& path, int extra_flags) : path_(path) {
    fd_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | extra_flags, 0666);
    if (fd_ < 0) throw_io_error("create", path, errno);
    struct stat info {};
    if (::fstat(fd_, &info) != 0) {
      const int error = errno;
      ::close(fd_);
      throw_io_error("stat", path, error);
    }
    size_ = info.st_size;
  }
  ~RealFile() override {
    if (fd_ >= 0) ::close(fd_);
  }
  using IoFile::append;
  void append(std::span<const std::byte> data) override { write_at(size_, data); }

  void write_at(int64_t offset, std::span<const std::byte> data) override {
    while (!data.empty()) {
      const ssize_t n = ::pwrite(fd_, data.data(), std::min<size_t>(data.size(), size_t{1} << 30), offset);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) throw_io_error("write", path_, n < 0 ? errno : EIO);
      offset += n;
      size_ = std::max(size_, offset);
      data = data.subspan(static_cast<size_t>(n));
    }
  }

  void sync() override {
    if (::fsync(fd_) != 0) throw_io_error("sync", path_, errno);
  }
  int64_t size() const override { return size_; }
  void close() override {
    if (fd_ >= 0 && ::close(std::exchange(fd_, -1)) != 0) throw_io_error("close", path_, errno);
  }

 protected:
  int fd() const { return fd_; }

 private:
  std::string path_;
  int fd_ = -1;
  int64_t size_ = 0;
};

// The name still leads to the file that is open: nobody removed or replaced it before it was locked.
bool is_still(int fd, const std::string& path) {
  struct stat open_one {
  }, named{};
  return ::fstat(fd, &open_one) == 0 && ::lstat(path.c_str(), &named) == 0 && open_one.st_ino == named.st_ino &&
         open_one.st_dev == named.st_dev;
}

bool has_no_locks(int error) { return error == ENOLCK || error == ENOSYS || error == EOPNOTSUPP || error == EINVAL; }

// Its lock outlives close(), so that the name can be changed while nobody may take it for a leftover.
class LockedFile : public RealFile {
 public:
  explicit LockedFile(const std::string& path) : RealFile(path, O_EXCL | O_NOFOLLOW) {
    lock_fd_ = ::fcntl(fd(), F_DUPFD_CLOEXEC, 0);
    if (lock_fd_ < 0) throw_io_error("lock", path, errno);
  }
  ~LockedFile() override { ::close(lock_fd_); }
  LockedFile(const LockedFile&) = delete;
  LockedFile& operator=(const LockedFile&) = delete;
  bool take(const std::string& path) const {
    return (::flock(lock_fd_, LOCK_EX | LOCK_NB) == 0 || has_no_locks(errno)) && is_still(lock_fd_, path);
  }

 private:
  int lock_fd_ = -1;
};

class RealLock : public IoLock {
 public:
  explicit RealLock(int fd) : fd_(fd) {}
  ~RealLock() override { ::close(fd_); }  // closing releases it; the file stays, as removing it would race

 private:
  int fd_;
};

class RealIo : public Io {
 public:
  std::unique_ptr<IoFile> create(const std::string& path) override { return std::make_unique<RealFile>(path, O_TRUNC); }
  std::unique_ptr<IoFile> create_locked(const std::string& path) override {
    struct stat info {};
    if (::lstat(path.c_str(), &info) == 0) return nullptr;
    auto file = std::make_unique<LockedFile>(path);
    return file->take(path) ? std::move(file) : nullptr;
  }
  std::unique_ptr<IoFile> open_append(const std::string& path) override { return std::make_unique<RealFile>(path, 0); }

  void sync_dir(const std::string& path) override {
    const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) throw_io_error("open", path, errno);
    const int error = ::fsync(fd) == 0 ? 0 : errno;
    ::close(fd);
    if (error != 0 && error != EINVAL)
      throw_io_error("sync", path, error);  // EINVAL: this file system cannot, and need not
  }

  void rename(const std::string& from, const std::string& to) override {
    // A rename would put a plain file where /dev/null or a pipe was, for the whole machine.
    struct stat target {};
    const bool is_special = ::stat(to.c_str(), &target) == 0 && !S_ISREG(target.st_mode) && !S_ISDIR(target.st_mode);
    if (is_special || (to.starts_with("/dev/") && !to.starts_with("/dev/shm/")))  // /dev/stdout may lead to a file
      throw Error(ErrorKind::bad_file, "{}: a device or a pipe, which tern does not replace; name a plain file", to);
    if (::rename(from.c_str(), to.c_str()) != 0) throw_io_error("rename " + from + " to", to, errno);
  }

  bool rename_new(const std::string& from, const std::string& to) override {
#if defined(RENAME_NOREPLACE)
    if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return true;
    if (errno == EEXIST) return false;
    if (errno != EINVAL && errno != ENOSYS) throw_io_error("rename " + from + " to", to, errno);
#endif
    if (stat(to)) return false;  // a file system that cannot do both at once
    rename(from, to);
    return true;
  }

  void truncate(const std::string& path, int64_t size_bytes) override {
    if (::truncate(path.c_str(), size_bytes) != 0) throw_io_error("truncate", path, errno);
  }

  void remove(const std::string& path) override {
    if (::remove(path.c_str()) != 0) throw_io_error("remove", path, errno);
  }

  bool make_dir(const std::string& path) override {
    if (::mkdir(path.c_str(), 0777) == 0) return true;
    const int error = errno;
    const auto info = error == EEXIST ? stat(path) : std::nullopt;
    if (info && info->is_directory) return false;
    throw_io_error("make the directory", path, error);
  }

  std::vector<std::string> list(const std::string& path) override {
    DIR* dir = ::opendir(path.c_str());
    if (dir == nullptr) throw_io_error("list", path, errno);
    std::vector<std::string> names;
    while (const dirent* entry = ::readdir(dir)) {
      const std::string_view name = entry->d_name;
      if (name != "." && name != "..") names.emplace_back(name);
    }
    ::closedir(dir);
    std::sort(names.begin(), names.end());
    return names;
  }

  std::string read(const std::string& path) override {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a pipe without a writer would wait
    if (fd < 0) throw_io_error("open", path, errno);
    struct stat info {};
    std::string text;
    const bool known = ::fstat(fd, &info) == 0;
    if (known && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode) && !path.starts_with("/dev/") &&
        !path.starts_with("/proc/")) {
      ::close(fd);
      throw Error(ErrorKind::bad_file, "{}: a pipe, a socket or a device; a plain file is needed here", path);
    }
    ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) & ~O_NONBLOCK);
    if (known && info.st_size > 0) text.reserve(static_cast<size_t>(info.st_size));
    int error = 0;
    for (char chunk[1 << 16];;) {
      const ssize_t n = ::read(fd, chunk, sizeof chunk);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) error = errno;
      if (n <= 0) break;
      text.append(chunk, static_cast<size_t>(n));
    }
    ::close(fd);
    if (error != 0) throw_io_error("read", path, error);
    return text;
  }

  std::optional<FileInfo> stat(const std::string& path) override {
    struct stat info {};
    if (::lstat(path.c_str(), &info) != 0) {
      if (errno == ENOENT || errno == ENOTDIR) return std::nullopt;
      throw_io_error("look at", path, errno);
    }
    const bool is_symlink = S_ISLNK(info.st_mode);
    if (is_symlink && ::stat(path.c_str(), &info) != 0) return FileInfo{.is_symlink = true};  // points nowhere
    return FileInfo{S_ISDIR(info.st_mode), is_symlink, !S_ISDIR(info.st_mode) && !S_ISREG(info.st_mode), info.st_size,
                    static_cast<int64_t>(info.st_mtim.tv_sec) * 1'000'000'000 + info.st_mtim.tv_nsec};
  }

  std::optional<int64_t> free_bytes(const std::string& path) override {
    struct statvfs space {};
    for (std::string at = path;; at = parent_path(at)) {  // what is not there yet lands where its parent is
      if (::statvfs(at.c_str(), &space) == 0)
        return static_cast<int64_t>(space.f_bavail) * static_cast<int64_t>(space.f_frsize);
      if (errno != ENOENT || at == "." || at == "/") return std::nullopt;
    }
  }

  std::unique_ptr<IoLock> lock(const std::string& path) override {
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
    if (fd < 0 && errno == ELOOP) refuse_link(path);
    if (fd < 0) throw_io_error("create", path, errno);
    auto held = std::make_unique<RealLock>(fd);
    if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK) throw_io_error("lock", path, errno);
      char owner[32] = {};
      const ssize_t n = ::pread(fd, owner, sizeof owner - 1, 0);
      std::string pid(owner, n > 0 ? static_cast<size_t>(n) : 0);
      while (!pid.empty() && pid.back() == '\n') pid.pop_back();
      throw Error(ErrorKind::usage,
                  "{}: another tern is at work on this directory (process {}); wait for it or choose another --output",
                  parent_path(path), pid.empty() ? "unknown" : pid);
    }
    const std::string pid = std::to_string(::getpid()) + "\n";
    if (::ftruncate(fd, 0) != 0 || ::pwrite(fd, pid.data(), pid.size(), 0) < 0) throw_io_error("write", path, errno);
    return held;
  }

  std::unique_ptr<IoLock> lock_existing(const std::string& path) override {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT) return nullptr;
    if (fd < 0 && errno == ELOOP) refuse_link(path);
    if (fd < 0) throw_io_error("open", path, errno);
    auto held = std::make_unique<RealLock>(fd);
    return ::flock(fd, LOCK_EX | LOCK_NB) == 0 && is_still(fd, path) ? std::move(held) : nullptr;
  }

 private:
  [[noreturn]] static void refuse_link(const std::string& path) {
    throw Error(ErrorKind::bad_file, "{}: a symbolic link, which tern does not write through; remove it", path);
  }
};

std::string_view remedy_for(int error_number) {
  switch (error_number) {
    case ENOSPC:
      return "free space on this disk, or choose another place";
    case EDQUOT:
      return "your disk quota is used up: free space, or choose another place";
    case EACCES:
    case EPERM:
      return "check who owns it and its permissions, or choose another place";
    case EROFS:
      return "this file system is read-only: choose another place";
    case ENOENT:
      return "check the path";
    case ENOTDIR:
      return "a part of the path is a file";
    case EISDIR:
      return "give a file, not a directory";
    case EMFILE:
    case ENFILE:
      return "raise the limit of open files (ulimit -n)";
    case ENOTEMPTY:
    case EEXIST:
      return "something is there already: move it away or choose another name";
    case EIO:
      return "the disk or network storage failed: check it (dmesg) before going on";
    case EFBIG:
      return "raise the file size limit (ulimit -f)";
    case ENAMETOOLONG:
      return "shorten the path";
    case EXDEV:
      return "both must be on one file system";
    case ENOMEM:
      return "the system is out of memory or address space";
    default:
      return "the system gave no more detail";
  }
}

}  // namespace

Io& real_io() {
  static RealIo io;
  return io;
}

void throw_io_error(std::string_view verb, const std::string& path, int error_number) {
  const bool full = error_number == ENOSPC || error_number == EDQUOT;
  throw Error(full ? ErrorKind::does_not_fit : ErrorKind::bad_file, "cannot {} {}: {}; {}", verb, path,
              std::strerror(error_number), remedy_for(error_number));
}

void make_dirs(Io& io, const std::string& path) {
  if (path.empty() || path == "/" || path == ".") return;
  const auto info = io.stat(path);
  if (info && info->is_directory) return;
  const std::string parent = parent_path(path);
  make_dirs(io, parent);
  if (io.make_dir(path)) io.sync_dir(parent);
}

void remove_all(Io& io, const std::string& path) {
  const auto info = io.stat(path);
  if (!info) return;
  if (info->is_directory && !info->is_symlink)
    for (const std::string& name : io.list(path)) remove_all(io, join_path(path, name));
  io.remove(path);
}

std::string join_path(std::string_view directory, std::string_view name) {
  if (directory.empty() || name.starts_with('/')) return std::string(name);
  std::string path(directory);
  if (path.back() != '/') path += '/';
  return path.append(name);
}

std::string parent_path(std::string_view path) {
  while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  const size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) return ".";
  return slash == 0 ? "/" : std::string(path.substr(0, slash));
}

std::string file_name(std::string_view path) {
  while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  const size_t slash = path.rfind('/');
  return std::string(slash == std::string_view::npos || path.size() == 1 ? path : path.substr(slash + 1));
}

}  // namespace tern
