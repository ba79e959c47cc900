#pragma once
// A simulated disk, for tests. It remembers what was synced and what was not, and returns states in which a crash may
// leave a disk: un-synced writes are kept, cut short or lost; un-synced names appear or vanish. Names in different
// directories are independent, so that after a crash a rename across directories may have happened in one of them
// only.

#include <map>
#include <mutex>
#include <set>

#include "base/io.h"

namespace tern {

/// Paths are as given ("run/model"); "." and "/" exist from the start. Thread-safe.
class MemoryIo : public Io {
 public:
  MemoryIo();
  ~MemoryIo() override;

  /// The disk as it may be found after a loss of power at this moment. Equal seeds give equal states. No lock is held any more.
  /// Model   A synced file keeps its content, and a synced directory its names.
  ///         Each un-synced write is kept, dropped, or cut short at a random byte, independently of the others; a hole that a dropped
  ///         write leaves before a kept one is zeros. A truncation is kept or dropped.
  ///         Of a directory's un-synced changes, the first k have happened, for a random k. A rename within a directory is one
  ///         change; across directories it is one change in each.
  std::unique_ptr<MemoryIo> state_after_crash(uint64_t seed) const;
  int64_t capacity_bytes = INT64_MAX;  // writing past it fails like a full disk

  std::unique_ptr<IoFile> create(const std::string& path) override;
  std::unique_ptr<IoFile> create_locked(const std::string& path) override;
  std::unique_ptr<IoFile> open_append(const std::string& path) override;
  void sync_dir(const std::string& path) override;
  void rename(const std::string& from, const std::string& to) override;
  bool rename_new(const std::string& from, const std::string& to) override;
  void truncate(const std::string& path, int64_t size_bytes) override;
  void remove(const std::string& path) override;
  bool make_dir(const std::string& path) override;
  std::vector<std::string> list(const std::string& path) override;
  std::string read(const std::string& path) override;
  std::optional<FileInfo> stat(const std::string& path) override;
  std::optional<int64_t> free_bytes(const std::string& path) override;  // of capacity_bytes, if that is set
  std::unique_ptr<IoLock> lock(const std::string& path) override;
  std::unique_ptr<IoLock> lock_existing(const std::string& path) override;

 private:
  friend class MemoryFile;
  friend class MemoryLock;
  struct Node;
  using NodePtr = std::shared_ptr<Node>;
  struct Change {  // of a file: bytes at an offset, or a new size; of a directory: names
    int64_t offset = 0;
    std::string bytes = {};
    bool is_truncation = false;
    std::map<std::string, NodePtr> names = {};  // null: the name goes away
  };
  struct Locks {
    std::mutex mutex;
    std::set<std::string> held;
  };
  struct Node {
    bool is_directory = false;
    std::string content, synced_content;
    std::map<std::string, NodePtr> names, synced_names;
    std::vector<Change> changes;  // since the last sync, in order
  };

  NodePtr find(const std::string& path) const;  // null if absent
  NodePtr parent_of(const std::string& path, const char* verb) const;
  std::unique_ptr<IoFile> open(const std::string& path, bool truncate);
  void write(Node&, const std::string& path, int64_t offset, std::span<const std::byte>);
  static void change_names(Node& directory, std::map<std::string, NodePtr> names);
  int64_t used_bytes() const;

  mutable std::mutex mutex_;
  NodePtr root_;
  std::shared_ptr<Locks> locks_ = std::make_shared<Locks>();
};

}  // namespace tern
