#pragma once
// The interface through which tern changes files. A test can replace it to count operations, to make the k-th one fail, or
// to lose what was never synced (fault_io.h, memory_io.h). Large files are read through mapped_file.h.

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
  bool is_directory = false;  // for a symbolic link: whether its target is one
  bool is_symlink = false;
  bool is_special = false;  // a pipe, a socket or a device; for a symbolic link: whether its target is one
  int64_t size_bytes = 0;
  int64_t modified_ns = 0;  // since 1970; 0 on simulated disks
};

/// A file open for writing. The destructor closes without syncing and reports no error: call sync() and close() to learn
/// whether the bytes were written.
class IoFile {
 public:
  virtual ~IoFile() = default;
  virtual void append(std::span<const std::byte>) = 0;  // at the end; writes all bytes or throws an Error
  virtual void write_at(int64_t offset, std::span<const std::byte>) = 0;
  virtual void sync() = 0;  // data and size reach the disk
  virtual int64_t size() const = 0;
  virtual void close() = 0;  // throws a write error that the kernel reports only now
  void append(std::string_view text) { append(std::as_bytes(std::span(text))); }
};

/// Held until destroyed, or until the process dies.
class IoLock {
 public:
  virtual ~IoLock() = default;
};

/// Every function throws an Error with the path, the system's reason and a remedy: does_not_fit for a full disk, else
/// bad_file. `lock` throws usage if somebody else holds the lock.
class Io {
 public:
  virtual ~Io() = default;
  virtual std::unique_ptr<IoFile> create(const std::string& path) = 0;  // a new file; an existing one is emptied
  /// Makes a new file and locks it, as lock_existing does, until the IoFile is destroyed, so that nobody else uses it. Null:
  /// the name is taken, or another process removed the file before it was locked; try another name.
  virtual std::unique_ptr<IoFile> create_locked(const std::string& path) = 0;
  virtual std::unique_ptr<IoFile> open_append(const std::string& path) = 0;  // creates it, or keeps its content
  virtual void sync_dir(const std::string& path) = 0;
  virtual void rename(const std::string& from,
                      const std::string& to) = 0;  // replaces a file; a directory that is not empty is an error
  /// Like rename, but if `to` exists, it does nothing and returns false.
  virtual bool rename_new(const std::string& from, const std::string& to) = 0;
  virtual void truncate(const std::string& path, int64_t size_bytes) = 0;
  virtual void remove(const std::string& path) = 0;                    // a file, or an empty directory
  virtual bool make_dir(const std::string& path) = 0;                  // one level; false if it was there already
  virtual std::vector<std::string> list(const std::string& path) = 0;  // names, sorted
  /// Returns the whole file. Pipes, sockets and devices are read only under /dev and /proc (a shell's <(…)): elsewhere a
  /// pipe may have no writer, and reading it would never end.
  virtual std::string read(const std::string& path) = 0;
  virtual std::optional<FileInfo> stat(const std::string& path) = 0;  // absent: nothing there
  /// The bytes that this user may still write to the disk of `path`, which need not exist yet; absent: not known.
  virtual std::optional<int64_t> free_bytes(const std::string& path) { return (void)path, std::nullopt; }
  /// Locks the lock file `path`, which is made if needed. Errors: usage, naming the holder: it is held; bad_file: it is a symbolic link.
  virtual std::unique_ptr<IoLock> lock(const std::string& path) = 0;
  /// Locks an existing file or directory without changing it. Null: it does not exist or was replaced meanwhile, a running
  /// process holds its lock, or the file system has no locks. Errors: bad_file: a symbolic link.
  virtual std::unique_ptr<IoLock> lock_existing(const std::string& path) = 0;
};

/// The system's files. Stateless, thread-safe.
Io& real_io();

/// Writes through an OutputFile (publish.h): after a crash, `path` has the old content or the whole new one.
void write_file_atomically(Io&, const std::string& path, std::span<const std::byte>);
void write_file_atomically(Io&, const std::string& path, std::string_view);
/// Makes `path` and its missing parents; syncs each directory in which one was made.
void make_dirs(Io&, const std::string& path);
/// Removes a file, or a directory with everything in it; of a symbolic link, only the link. Does nothing if there is no such
/// file. Does not sync.
void remove_all(Io&, const std::string& path);

std::string join_path(std::string_view directory, std::string_view name);
std::string parent_path(std::string_view path);  // "." for a bare name
std::string file_name(std::string_view path);

/// Throws the Error for a failed system call: "VERB PATH: reason; remedy".
[[noreturn]] void throw_io_error(std::string_view verb, const std::string& path, int error_number);

}  // namespace tern
