#pragma once
// An Io that passes every operation to another Io, and makes one of them fail on purpose. A test runs its work once without
// a fault to count the operations, then once for each operation and kind of fault.

#include <functional>
#include <mutex>

#include "base/io.h"

namespace tern {

enum class FaultKind {
  none,
  kill_before,  // calls `kill` in place of the operation
  kill_after,   // runs the operation, then calls `kill`
  short_write,  // a write: writes the first half and reports a full disk; another operation: as no_space
  no_space,     // ENOSPC, nothing done
  io_error,     // EIO, nothing done
  sync_error,   // the first sync from operation `at` on fails with EIO
};

/// Thrown by `kill` unless a test sets another function. It is not derived from Error, so code that handles errors does not catch it.
struct SimulatedKill {};

struct Fault {
  int64_t at = -1;  // the number of the mutating operation that fails, from 0; -1: none
  FaultKind kind = FaultKind::none;
  std::function<void()> kill = [] { throw SimulatedKill{}; };  // a real process: sends SIGKILL to it
};

/// The mutating operations are create, create_locked, open_append, append, write_at, sync, sync_dir, rename, rename_new,
/// truncate, remove and make_dir. After a kill, each further one calls `kill` again, as a dead process does nothing. Thread-safe.
class FaultIo : public Io {
 public:
  explicit FaultIo(Io& inner, Fault fault = {}) : inner_(inner), fault_(std::move(fault)) {}

  int64_t num_operations() const;
  bool fault_happened() const;

  std::unique_ptr<IoFile> create(const std::string& path) override;
  std::unique_ptr<IoFile> create_locked(const std::string& path) override;
  std::unique_ptr<IoFile> open_append(const std::string& path) override;
  void sync_dir(const std::string& path) override;
  void rename(const std::string& from, const std::string& to) override;
  bool rename_new(const std::string& from, const std::string& to) override;
  void truncate(const std::string& path, int64_t size_bytes) override;
  void remove(const std::string& path) override;
  bool make_dir(const std::string& path) override;
  std::vector<std::string> list(const std::string& path) override { return inner_.list(path); }
  std::string read(const std::string& path) override { return inner_.read(path); }
  std::optional<FileInfo> stat(const std::string& path) override { return inner_.stat(path); }
  std::optional<int64_t> free_bytes(const std::string& path) override { return inner_.free_bytes(path); }
  std::unique_ptr<IoLock> lock(const std::string& path) override { return inner_.lock(path); }
  std::unique_ptr<IoLock> lock_existing(const std::string& path) override { return inner_.lock_existing(path); }

 private:
  friend class FaultFile;
  enum class What { write, sync, other };
  /// Runs `operation`, or the fault in its place. `half`: the half of a write that short_write still does.
  void step(What, const char* verb, const std::string& path, const std::function<void()>& operation,
            const std::function<void()>& half = {});

  Io& inner_;
  Fault fault_;
  mutable std::mutex mutex_;
  int64_t count_ = 0;
  bool happened_ = false, dead_ = false;
};

}  // namespace tern
