#include "base/memory_io.h"

#include <algorithm>
#include <cerrno>
#include <functional>

#include "base/error.h"
#include "base/rng.h"
#include "base/text.h"

namespace tern {
namespace {

std::vector<std::string> components_of(const std::string& path) {
  std::vector<std::string> parts;
  for (const std::string_view part : split(path, '/'))
    if (!part.empty() && part != ".") parts.emplace_back(part);
  return parts;
}

void overwrite(std::string& content, int64_t offset, std::string_view bytes) {
  const auto end = static_cast<size_t>(offset) + bytes.size();
  if (!bytes.empty() && content.size() < end) content.resize(end, '\0');
  std::copy(bytes.begin(), bytes.end(), content.begin() + offset);
}

}  // namespace

class MemoryFile : public IoFile {
 public:
  MemoryFile(MemoryIo& io, std::shared_ptr<MemoryIo::Node> node, std::string path)
      : io_(io), node_(std::move(node)), path_(std::move(path)) {}
  void keep(std::unique_ptr<IoLock> lock) { lock_ = std::move(lock); }
  using IoFile::append;
  void append(std::span<const std::byte> data) override {
    const std::lock_guard lock(io_.mutex_);
    io_.write(*node_, path_, static_cast<int64_t>(node_->content.size()), data);
  }
  void write_at(int64_t offset, std::span<const std::byte> data) override {
    const std::lock_guard lock(io_.mutex_);
    io_.write(*node_, path_, offset, data);
  }
  void sync() override {
    const std::lock_guard lock(io_.mutex_);
    node_->synced_content = node_->content;
    node_->changes.clear();
  }
  int64_t size() const override {
    const std::lock_guard lock(io_.mutex_);
    return static_cast<int64_t>(node_->content.size());
  }
  void close() override {}

 private:
  MemoryIo& io_;
  std::shared_ptr<MemoryIo::Node> node_;
  std::string path_;
  std::unique_ptr<IoLock> lock_;
};

class MemoryLock : public IoLock {
 public:
  MemoryLock(std::shared_ptr<MemoryIo::Locks> locks, std::string path)
      : locks_(std::move(locks)), path_(std::move(path)) {}
  ~MemoryLock() override {
    const std::lock_guard lock(locks_->mutex);
    locks_->held.erase(path_);
  }

 private:
  std::shared_ptr<MemoryIo::Locks> locks_;
  std::string path_;
};

MemoryIo::MemoryIo() : root_(std::make_shared<Node>()) { root_->is_directory = true; }
MemoryIo::~MemoryIo() = default;

MemoryIo::NodePtr MemoryIo::find(const std::string& path) const {
  NodePtr node = root_;
  for (const std::string& part : components_of(path)) {
    const auto entry = node->names.find(part);
    if (entry == node->names.end()) return nullptr;
    node = entry->second;
  }
  return node;
}

MemoryIo::NodePtr MemoryIo::parent_of(const std::string& path, const char* verb) const {
  NodePtr parent = find(parent_path(path));
  if (!parent) throw_io_error(verb, path, ENOENT);
  if (!parent->is_directory) throw_io_error(verb, path, ENOTDIR);
  return parent;
}

void MemoryIo::change_names(Node& directory, std::map<std::string, NodePtr> names) {
  for (const auto& [name, node] : names) {
    if (node)
      directory.names[name] = node;
    else
      directory.names.erase(name);
  }
  directory.changes.push_back({.names = std::move(names)});
}

int64_t MemoryIo::used_bytes() const {
  int64_t bytes = 0;
  const std::function<void(const Node&)> add = [&](const Node& node) {
    bytes += static_cast<int64_t>(node.content.size());
    for (const auto& [name, child] : node.names) add(*child);
  };
  add(*root_);
  return bytes;
}

void MemoryIo::write(Node& node, const std::string& path, int64_t offset, std::span<const std::byte> data) {
  const int64_t growth =
      std::max<int64_t>(0, offset + static_cast<int64_t>(data.size()) - static_cast<int64_t>(node.content.size()));
  if (capacity_bytes != INT64_MAX && used_bytes() + growth > capacity_bytes) throw_io_error("write", path, ENOSPC);
  const std::string_view bytes(reinterpret_cast<const char*>(data.data()), data.size());
  overwrite(node.content, offset, bytes);
  node.changes.push_back({.offset = offset, .bytes = std::string(bytes)});
}

std::unique_ptr<IoFile> MemoryIo::open(const std::string& path, bool truncate) {
  const std::lock_guard lock(mutex_);
  const NodePtr parent = parent_of(path, "create");
  NodePtr node = find(path);
  if (node && node->is_directory) throw_io_error("create", path, EISDIR);
  if (!node) {
    node = std::make_shared<Node>();
    change_names(*parent, {{file_name(path), node}});
  } else if (truncate && !node->content.empty()) {
    node->content.clear();
    node->changes.push_back({.is_truncation = true});
  }
  return std::make_unique<MemoryFile>(*this, node, path);
}

std::unique_ptr<IoFile> MemoryIo::create(const std::string& path) { return open(path, true); }
std::unique_ptr<IoFile> MemoryIo::open_append(const std::string& path) { return open(path, false); }

std::unique_ptr<IoFile> MemoryIo::create_locked(const std::string& path) {
  if (stat(path)) return nullptr;
  auto file = open(path, true);
  auto lock = lock_existing(path);
  if (!lock) return nullptr;
  static_cast<MemoryFile&>(*file).keep(std::move(lock));
  return file;
}

std::unique_ptr<IoLock> MemoryIo::lock_existing(const std::string& path) {
  if (!stat(path)) return nullptr;
  const std::lock_guard lock(locks_->mutex);
  const std::string key = join(components_of(path), "/");
  return locks_->held.insert(key).second ? std::make_unique<MemoryLock>(locks_, key) : nullptr;
}

bool MemoryIo::rename_new(const std::string& from, const std::string& to) {
  if (stat(to)) return false;
  rename(from, to);
  return true;
}

void MemoryIo::sync_dir(const std::string& path) {
  const std::lock_guard lock(mutex_);
  const NodePtr node = find(path);
  if (!node) throw_io_error("sync", path, ENOENT);
  if (!node->is_directory) throw_io_error("sync", path, ENOTDIR);
  node->synced_names = node->names;
  node->changes.clear();
}

void MemoryIo::rename(const std::string& from, const std::string& to) {
  const std::lock_guard lock(mutex_);
  const NodePtr node = find(from), target = find(to);
  if (!node) throw_io_error("rename", from, ENOENT);
  const NodePtr source_dir = parent_of(from, "rename"), target_dir = parent_of(to, "rename");
  if (target == node) return;
  if (target && target->is_directory && !node->is_directory) throw_io_error("rename", to, EISDIR);
  if (target && !target->is_directory && node->is_directory) throw_io_error("rename", to, ENOTDIR);
  if (target && target->is_directory && !target->names.empty()) throw_io_error("rename", to, ENOTEMPTY);
  if (source_dir == target_dir) {
    change_names(*source_dir, {{file_name(from), nullptr}, {file_name(to), node}});
  } else {
    change_names(*target_dir, {{file_name(to), node}});
    change_names(*source_dir, {{file_name(from), nullptr}});
  }
}

void MemoryIo::truncate(const std::string& path, int64_t size_bytes) {
  const std::lock_guard lock(mutex_);
  const NodePtr node = find(path);
  if (!node) throw_io_error("truncate", path, ENOENT);
  if (node->is_directory) throw_io_error("truncate", path, EISDIR);
  node->content.resize(static_cast<size_t>(size_bytes), '\0');
  node->changes.push_back({.offset = size_bytes, .is_truncation = true});
}

void MemoryIo::remove(const std::string& path) {
  const std::lock_guard lock(mutex_);
  const NodePtr node = find(path);
  if (!node) throw_io_error("remove", path, ENOENT);
  if (node == root_) throw_io_error("remove", path, EPERM);
  if (node->is_directory && !node->names.empty()) throw_io_error("remove", path, ENOTEMPTY);
  change_names(*parent_of(path, "remove"), {{file_name(path), nullptr}});
}

bool MemoryIo::make_dir(const std::string& path) {
  const std::lock_guard lock(mutex_);
  if (const NodePtr node = find(path)) {
    if (!node->is_directory) throw_io_error("make the directory", path, EEXIST);
    return false;
  }
  auto node = std::make_shared<Node>();
  node->is_directory = true;
  change_names(*parent_of(path, "make the directory"), {{file_name(path), node}});
  return true;
}

std::vector<std::string> MemoryIo::list(const std::string& path) {
  const std::lock_guard lock(mutex_);
  const NodePtr node = find(path);
  if (!node) throw_io_error("list", path, ENOENT);
  if (!node->is_directory) throw_io_error("list", path, ENOTDIR);
  std::vector<std::string> names;
  for (const auto& [name, child] : node->names) names.push_back(name);
  return names;
}

std::string MemoryIo::read(const std::string& path) {
  const std::lock_guard lock(mutex_);
  const NodePtr node = find(path);
  if (!node) throw_io_error("open", path, ENOENT);
  if (node->is_directory) throw_io_error("read", path, EISDIR);
  return node->content;
}

std::optional<FileInfo> MemoryIo::stat(const std::string& path) {
  const std::lock_guard lock(mutex_);
  const NodePtr node = find(path);
  if (!node) return std::nullopt;
  return FileInfo{.is_directory = node->is_directory, .size_bytes = static_cast<int64_t>(node->content.size())};
}

std::optional<int64_t> MemoryIo::free_bytes(const std::string&) {
  const std::lock_guard lock(mutex_);
  if (capacity_bytes == INT64_MAX) return {};
  return std::max<int64_t>(0, capacity_bytes - used_bytes());
}

std::unique_ptr<IoLock> MemoryIo::lock(const std::string& path) {
  open(path, false);
  const std::lock_guard lock(locks_->mutex);
  const std::string key = join(components_of(path), "/");
  if (!locks_->held.insert(key).second)
    throw Error(ErrorKind::usage,
                "{}: another tern is at work on this directory; wait for it or choose another --output",
                parent_path(path));
  return std::make_unique<MemoryLock>(locks_, key);
}

std::unique_ptr<MemoryIo> MemoryIo::state_after_crash(uint64_t seed) const {
  const std::lock_guard lock(mutex_);
  const RngKey key{seed, hash_name("crash")};
  uint64_t drawn = 0;
  const auto draw = [&](uint64_t below) { return random_u64(key, drawn++) % below; };

  std::map<const Node*, NodePtr> copies;  // a node may still be named twice: once in each directory of a torn rename
  const std::function<NodePtr(const Node&)> survive = [&](const Node& node) -> NodePtr {
    if (const auto known = copies.find(&node); known != copies.end()) return known->second;
    const auto copy = std::make_shared<Node>();
    copies[&node] = copy;
    copy->is_directory = node.is_directory;
    if (node.is_directory) {
      auto names = node.synced_names;
      const uint64_t kept = draw(node.changes.size() + 1);
      for (uint64_t i = 0; i < kept; ++i)
        for (const auto& [name, child] : node.changes[i].names) {
          if (child)
            names[name] = child;
          else
            names.erase(name);
        }
      for (const auto& [name, child] : names) copy->names[name] = survive(*child);
    } else {
      std::string content = node.synced_content;
      for (const Change& change : node.changes) {
        const uint64_t fate = draw(3);
        if (fate == 0) continue;
        if (change.is_truncation)
          content.resize(static_cast<size_t>(change.offset), '\0');
        else
          overwrite(content, change.offset,
                    std::string_view(change.bytes)
                        .substr(0, fate == 1 ? change.bytes.size() : draw(change.bytes.size() + 1)));
      }
      copy->content = std::move(content);
    }
    copy->synced_content = copy->content;
    copy->synced_names = copy->names;
    return copy;
  };
  auto disk = std::make_unique<MemoryIo>();
  disk->root_ = survive(*root_);
  disk->capacity_bytes = capacity_bytes;
  return disk;
}

}  // namespace tern
