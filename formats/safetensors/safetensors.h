#pragma once
// safetensors: u64 header length, a JSON header, the tensors' bytes. Read by mapping: a tensor is a view into the file.
// Strict where the format is: a file is accepted only if every byte of it is accounted for.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/mapped_file.h"

namespace tern {

/// One tensor of a file. `bytes` lives as long as the file object and is row-major, little-endian, and not necessarily
/// aligned for its element type: copy or load bytewise.
struct TensorView {
  std::string_view name;
  std::string_view dtype_name;  // the format's: "F32", "BF16", "F8_E4M3", …
  std::optional<DType> dtype;   // absent: a type of the format that tern only lists
  std::span<const int64_t> shape;
  std::span<const std::byte> bytes;

  int64_t num_elements() const;
};

/// The format's name of a dtype: "F32", "BF16", "BOOL", …
std::string_view safetensors_name(DType);
/// "(2, 3)", "(7,)", "()": a shape in messages, as Python writes it.
std::string shape_text(std::span<const int64_t> shape);

/// What the reader accepts at most.
inline constexpr int64_t kSafetensorsMaxHeaderBytes = 100'000'000;
inline constexpr int64_t kSafetensorsMaxTensors = 1'000'000;
inline constexpr int64_t kSafetensorsMaxRank = 8;
inline constexpr size_t kSafetensorsMaxMetadata = 100'000;
inline constexpr int64_t kSafetensorsMaxStringBytes = int64_t{1} << 20;

/// A validated, mapped file.
/// Errors  bad_file: "PATH: [tensor 'NAME':] fact, expectation; remedy". Checked at
///         opening: header length ≤ 100 MB and within the file, header starts with '{',
///         no duplicate names or keys, no unknown keys or dtypes, rank ≤ 8, names and
///         metadata ≤ 1 MiB, at most a million tensors, shape × dtype = bytes without overflow, offsets without hole or
///         overlap that end where the file ends.
/// Hazard  the file must not shrink while mapped (the kernel
///         would kill the process); writers that replace it
///         by rename, as write_safetensors does, are safe.
/// Source  the format's description at huggingface/safetensors; stricter than its reference reader in: duplicate names,
///         unknown keys, white space before '{', rank and counts.
class Safetensors {
 public:
  Safetensors() = default;
  explicit Safetensors(const std::string& path);

  /// The same over bytes of the caller's, which must outlive the object; `place` opens messages.
  static Safetensors over(std::span<const std::byte> bytes, std::string place);

  const std::string& path() const { return path_; }
  size_t size() const { return entries_.size(); }
  TensorView operator[](size_t i) const;  // in the order of their bytes in the file
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  int64_t data_bytes() const { return static_cast<int64_t>(data_.size()); }

  std::optional<TensorView> find(std::string_view name) const;
  /// Errors: bad_file, naming the nearest name, if there is none such or its dtype is one tern does not read.
  TensorView get(std::string_view name) const;
  /// Where a tensor of this file begins in it.
  int64_t offset_of(const TensorView& view) const {
    return view.bytes.data() - data_.data() + static_cast<int64_t>(map_.size() - data_.size());
  }
  /// A hint that tensor i will be read soon, or not again.
  void will_need(size_t i) const;
  void dont_need(size_t i) const;
  /// Reads tensor i now and maps its pages (MappedFile::Advice::populate).
  void populate(size_t i) const;

  /// One tensor of the header. `begin`, `end` count from the first data byte; `type` is a row of the format's dtype
  /// table.
  struct Entry {
    std::string name;
    uint64_t begin = 0, end = 0;
    uint32_t shape_begin = 0;  // within shapes_
    uint8_t rank = 0, type = 0;
  };

 private:
  void read(std::span<const std::byte> file);
  void advise(size_t i, MappedFile::Advice) const;

  std::string path_;
  MappedFile map_;
  std::span<const std::byte> data_;
  std::vector<Entry> entries_;
  std::vector<int64_t> shapes_;
  std::vector<uint32_t> by_name_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace tern
