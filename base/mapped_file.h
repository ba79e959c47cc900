#pragma once
// A whole file, mapped read-only into memory. The kernel reads a page from the disk when it is first accessed; no arena counts it.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace tern {

class MappedFile {
 public:
  MappedFile() = default;
  /// Errors: bad_file, if it is missing, unreadable, or no regular file. An empty file maps to an empty span.
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(MappedFile&&) noexcept;
  MappedFile& operator=(MappedFile&&) noexcept;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  size_t size() const { return size_; }
  const std::string& path() const { return path_; }

  enum class Advice { normal, sequential, random, will_need, dont_need, populate };
  /// Tells the kernel how bytes [begin, begin + count) will be read. This is a hint and never fails. populate: reads all
  /// their pages now, in one call, if the kernel can (Linux 5.14); else the same as will_need.
  void advise(Advice, size_t begin, size_t count) const;

 private:
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
  std::string path_;
};

/// The path of the mapped file whose memory has this address; null: there is none. For the handler of SIGBUS, which the
/// system raises when a mapped file is read that another program has truncated: it takes no lock and allocates no memory. It
/// knows at most 1,024 files at a time, and cuts paths to 255 bytes.
const char* mapped_file_with(const void* address);

}  // namespace tern
