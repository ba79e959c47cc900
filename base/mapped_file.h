#pragma once
// A whole file, read-only, as memory. Pages come from the disk when touched, and no arena counts them.

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
  /// Tells the kernel how bytes [begin, begin + count) will be read; a hint, never an error. populate: reads them now,
  /// with one fault for all pages where the kernel can (Linux 5.14), else as will_need.
  void advise(Advice, size_t begin, size_t count) const;

 private:
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
  std::string path_;
};

/// The path of the mapped file that has this address; null: none has. A file that another program cuts short while it is
/// mapped raises SIGBUS where it is read; a signal handler may ask here (no lock, no memory). Of more than 1,024 files
/// at once the further ones are not known; paths are cut to 255 bytes.
const char* mapped_file_with(const void* address);

}  // namespace tern
