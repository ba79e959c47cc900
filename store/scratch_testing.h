#pragma once
// A scratch file for tests: in memory, with faults.

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "store/scratch_file.h"

namespace tern {

/// Bytes in memory, in blocks of `alignment`.
class MemoryScratch : public ScratchFile {
 public:
  explicit MemoryScratch(int64_t bytes, int64_t alignment = 64)
      : bytes_(static_cast<size_t>(bytes)), alignment_(alignment) {}
  int64_t alignment() const override { return alignment_; }
  const std::string& path(int) const override { return path_; }
  int64_t read(int, int64_t offset, std::span<std::byte> into) override {
    const std::lock_guard lock(mutex_);
    if (!aligned(offset, into)) return -EINVAL;
    const int64_t allowed = on_read ? on_read(num_reads++, std::ssize(into)) : std::ssize(into);
    if (allowed <= 0) return allowed;
    const int64_t count = std::min(allowed, std::max<int64_t>(0, std::ssize(bytes_) - offset));
    std::memcpy(into.data(), bytes_.data() + offset, static_cast<size_t>(count));
    return count;
  }
  int64_t write(int64_t offset, std::span<const std::byte> from) override {
    const std::lock_guard lock(mutex_);
    if (!aligned(offset, from)) return -EINVAL;
    const int64_t allowed = on_write ? on_write(num_writes++, std::ssize(from)) : std::ssize(from);
    if (allowed <= 0) return allowed;
    if (offset + allowed > std::ssize(bytes_)) return -ENOSPC;
    std::memcpy(bytes_.data() + offset, from.data(), static_cast<size_t>(allowed));
    return allowed;
  }
  std::vector<std::byte>& bytes() { return bytes_; }

  /// What the k-th one does, given what was wanted: bytes, or a negated errno.
  std::function<int64_t(int64_t k, int64_t wanted)> on_read, on_write;
  int64_t num_reads = 0, num_writes = 0;

 private:
  bool aligned(int64_t offset, std::span<const std::byte> at) const {
    return offset % alignment_ == 0 && std::ssize(at) % alignment_ == 0 &&
           reinterpret_cast<uintptr_t>(at.data()) % static_cast<uintptr_t>(alignment_) == 0;
  }
  std::vector<std::byte> bytes_;
  int64_t alignment_;
  std::string path_ = "states.bin";
  std::mutex mutex_;
};

}  // namespace tern
