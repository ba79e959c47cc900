#pragma once
// The one door through which tern changes files, so that a test can stand in it: count operations, fail the k-th one,
// lose what was never synced (fault_io.h, memory_io.h). Reading big files goes through mapped_file.h.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tern {

struct FileInfo {
  bool is_directory = false;  // of what a symbolic link points to
  bool is_symlink = false;
  bool is_special = false;  // a pipe, a socket or a device; of what a symbolic link points to
  int64_t size_bytes = 0;
  int64_t modified_ns = 0;  // since 1970; 0 on simulated disks
};

/// A file open for writing. The destructor closes without syncing and reports no error: call sync() and close() to learn
/// whether the bytes were written.
class IoFile {
 public:
  virtual ~IoFile() = default;
  virtual void append(std::span<const std::byte>) = 0;  // at the end, all of it or an Error
  virtual void write_at(int64_t offset, std::span<const std::byte>) = 0;
  virtual void sync() = 0;  // data and size reach the disk
  virtual int64_t size() const = 0;
  virtual void close() = 0;  // throws the write error that the kernel had kept back until now
  void append(std::string_view text) { append(std::as_bytes(std::span(text))); }
};

/// Held until destroyed, or until the process dies.
class IoLock {
 public:
  virtual ~IoLock() = default;
};

/// Every function throws Error with path, the system's reason and a remedy: does_not_fit for a full disk, else
/// bad_file; `lock` throws usage where somebody holds the lock.
class Io {
 public:
  virtual ~Io() = default;
  virtual std::unique_ptr<IoFile> create(const std::string& path) = 0;  // new or truncated
  /// A new file that nobody else has: it is locked (as by lock_existing) until the IoFile is destroyed. Null: the name is
  /// taken, or another process swept the file away before it was locked; try another name.
  virtual std::unique_ptr<IoFile> create_locked(const std::string& path) = 0;
  virtual std::unique_ptr<IoFile> open_append(const std::string& path) = 0;  // new or kept
  virtual void sync_dir(const std::string& path) = 0;
  virtual void rename(const std::string& from,
                      const std::string& to) = 0;  // replaces a file; a full directory is an error
  /// As rename, but where `to` exists it does nothing and returns false.
  virtual bool rename_new(const std::string& from, const std::string& to) = 0;
  virtual void truncate(const std::string& path, int64_t size_bytes) = 0;
  virtual void remove(const std::string& path) = 0;                    // a file, or an empty directory
  virtual bool make_dir(const std::string& path) = 0;                  // one level; false if it was there already
  virtual std::vector<std::string> list(const std::string& path) = 0;  // names, sorted
  /// Returns the whole file. A pipe is read only under /dev (a shell's <(…)): elsewhere there may be nobody who writes to it,
  /// and the read would never end.
  virtual std::string read(const std::string& path) = 0;
  virtual std::optional<FileInfo> stat(const std::string& path) = 0;  // absent: nothing there
  /// Bytes this user may still write on the disk that holds `path` (which need not exist yet); absent: not known.
  virtual std::optional<int64_t> free_bytes(const std::string& path) { return (void)path, std::nullopt; }
  /// Takes the lock file `path` (created if needed; no symbolic link) or throws usage, naming who holds it.
  virtual std::unique_ptr<IoLock> lock(const std::string& path) = 0;
  /// Locks a file or directory that is there, without a change to it. Null: it does not exist or was replaced meanwhile, a
  /// living process holds its lock, or the file system has no locks.
  virtual std::unique_ptr<IoLock> lock_existing(const std::string& path) = 0;
};

/// The system's files. Stateless, thread-safe.
Io& real_io();

/// Writes through an OutputFile (publish.h): after a crash `path` is the old file or the new one.
void write_file_atomically(Io&, const std::string& path, std::span<const std::byte>);
void write_file_atomically(Io&, const std::string& path, std::string_view);
/// make_dir for every missing level; syncs each parent it added to.
void make_dirs(Io&, const std::string& path);
/// Removes a file or a directory with all below it (of a symbolic link: the link); nothing there is fine. Does not
/// sync.
void remove_all(Io&, const std::string& path);

std::string join_path(std::string_view directory, std::string_view name);
std::string parent_path(std::string_view path);  // "." for a bare name
std::string file_name(std::string_view path);

/// Throws the Error for a failed system call: "VERB PATH: reason; remedy".
[[noreturn]] void throw_io_error(std::string_view verb, const std::string& path, int error_number);

}  // namespace tern
