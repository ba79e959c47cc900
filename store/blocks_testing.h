#pragma once
// Files for tests: in memory, slow, or failing.

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

#include "store/block_files.h"

namespace tern {

inline constexpr int64_t kTestBlock = 64;

/// A file of so many bytes, unlike from block to block.
inline std::vector<std::byte> patterned_file(int64_t count) {
  std::vector<std::byte> bytes(static_cast<size_t>(count));
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 256);
  return bytes;
}

/// Bytes of the caller's as files, in blocks of `alignment`.
class MemoryBlocks : public BlockFiles {
 public:
  explicit MemoryBlocks(std::vector<std::vector<std::byte>> files, int64_t alignment = 64)
      : files_(std::move(files)), alignment_(alignment) {}
  int64_t alignment() const override { return alignment_; }
  const std::string& path(int) const override { return path_; }
  int64_t read(int file, int64_t offset, std::span<std::byte> into) override {
    if (offset % alignment_ != 0 || static_cast<int64_t>(into.size()) % alignment_ != 0) return -EINVAL;
    const auto& from = files_.at(static_cast<size_t>(file));
    const int64_t size = static_cast<int64_t>(from.size());
    const int64_t count = std::clamp<int64_t>(size - offset, 0, static_cast<int64_t>(into.size()));
    std::memcpy(into.data(), from.data() + std::min(offset, size), static_cast<size_t>(count));
    return count;
  }

 private:
  std::vector<std::vector<std::byte>> files_;
  int64_t alignment_;
  std::string path_ = "weights.bin";
};

/// Every read takes `seconds_per_byte`, one after the other, as a disk takes them.
class PacedBlocks : public BlockFiles {
 public:
  PacedBlocks(BlockFiles& inner, double seconds_per_byte) : inner_(inner), seconds_per_byte_(seconds_per_byte) {}
  int64_t alignment() const override { return inner_.alignment(); }
  const std::string& path(int file) const override { return inner_.path(file); }
  int64_t read(int file, int64_t offset, std::span<std::byte> into) override {
    const int64_t got = inner_.read(file, offset, into);
    const auto takes =
        std::chrono::duration<double>(seconds_per_byte_ * static_cast<double>(std::max<int64_t>(got, 0)));
    std::chrono::steady_clock::time_point until;
    {
      const std::lock_guard lock(mutex_);
      free_ = std::max(free_, std::chrono::steady_clock::now()) +
              std::chrono::duration_cast<std::chrono::steady_clock::duration>(takes);
      until = free_;
    }
    std::this_thread::sleep_until(until);
    return got;
  }

 private:
  BlockFiles& inner_;
  double seconds_per_byte_;
  std::mutex mutex_;
  std::chrono::steady_clock::time_point free_{};
};

/// Changes what the k-th read does, from 0 on: given what it would read, what it reads or its negated errno.
class FaultyBlocks : public BlockFiles {
 public:
  using Fault = std::function<int64_t(int64_t k, int64_t wanted)>;
  FaultyBlocks(BlockFiles& inner, Fault fault) : inner_(inner), fault_(std::move(fault)) {}
  int64_t alignment() const override { return inner_.alignment(); }
  const std::string& path(int file) const override { return inner_.path(file); }
  int64_t read(int file, int64_t offset, std::span<std::byte> into) override {
    const std::lock_guard lock(mutex_);
    const int64_t allowed = fault_(num_reads++, static_cast<int64_t>(into.size()));
    if (allowed <= 0) return allowed;
    const int64_t got = inner_.read(file, offset, into);
    if (got > allowed)  // what lies behind a short read is not there
      std::fill(into.begin() + allowed, into.end(), std::byte{0xee});
    return std::min(got, allowed);
  }
  int64_t num_reads = 0;

 private:
  BlockFiles& inner_;
  Fault fault_;
  std::mutex mutex_;
};

}  // namespace tern
