#pragma once
// An Io that passes everything on and fails one operation on purpose. A test runs its work once without a fault to
// count the operations, then once for each operation and kind of fault.

#include <functional>
#include <mutex>

#include "base/io.h"

namespace tern {

enum class FaultKind {
  none,
  kill_before,  // calls `kill`, the operation never happens
  kill_after,   // the operation happens, then `kill`
  short_write,  // writes the first half and reports a full disk; of other operations: like no_space
  no_space,     // ENOSPC, nothing done
  io_error,     // EIO, nothing done
  sync_error,   // the next sync at or after the operation fails with EIO
};

/// What `kill` throws unless a test sets another function. It is no Error, so that code which handles errors does not catch it.
struct SimulatedKill {};

struct Fault {
  int64_t at = -1;  // which mutating operation, from 0
  FaultKind kind = FaultKind::none;
  std::function<void()> kill = [] { throw SimulatedKill{}; };  // a test with a real process sends itself SIGKILL here
};

/// Mutating operations are: create(_locked), open_append, append, write_at, sync, sync_dir, rename(_new), truncate,
/// remove, make_dir. After a kill every further one kills again, as a dead process does nothing. Thread-safe.
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
  /// Runs `operation` as the next one, or the fault in its place; `half` is what a short write still does.
  void step(What, const char* verb, const std::string& path, const std::function<void()>& operation,
            const std::function<void()>& half = {});

  Io& inner_;
  Fault fault_;
  mutable std::mutex mutex_;
  int64_t count_ = 0;
  bool happened_ = false, dead_ = false;
};

}  // namespace tern
