#pragma once
// GGUF, version 3: metadata, a table of tensors, their bytes. Read by mapping; strict: every byte of the file belongs
// to the header, to one tensor, or is padding of zeros.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/mapped_file.h"
#include "base/weight_type.h"

namespace tern {

/// A type of tensors, as the format numbers it. Each block of `block_elements` neighbours in a row takes `block_bytes`
/// bytes.
struct GgufTypeRow {
  uint32_t id;
  std::string_view name;  // "Q4_K"
  int64_t block_elements, block_bytes;
  std::optional<WeightType> weight;  // absent: tern knows its size only
};
/// The type with this number; null: there is none.
const GgufTypeRow* gguf_type_row(uint32_t id);

/// Types of metadata values, as the format numbers them.
enum class GgufValueType : uint32_t { u8, i8, u16, i16, u32, i32, f32, boolean, string, array, u64, i64, f64 };
std::string_view name_of(GgufValueType);

/// One value of the metadata: a view into the file. Conversions are exact or an Error.
/// Errors  of the accessors: bad_file "PLACE: key 'K': …".
class GgufValue {
 public:
  GgufValueType type() const { return type_; }
  bool is_integer() const;

  uint64_t as_u64() const;   // any integer type, not negative
  int64_t as_i64() const;    // any integer type
  double as_number() const;  // any integer or floating type
  bool as_bool() const;
  std::string_view as_string() const;  // bytes: a single value's are UTF-8 (checked), an array element's may be any

  GgufValueType element_type() const;           // of an array
  uint64_t size() const;                        // of an array
  std::span<const std::byte> as_bytes() const;  // an array of u8 or i8, where it lies
  std::vector<GgufValue> elements() const;      // about 50 bytes each: for small arrays, and arrays of arrays
  std::vector<std::string_view> as_strings() const;
  std::vector<double> as_numbers() const;
  std::vector<int64_t> as_i64s() const;

 private:
  friend class Gguf;
  friend class GgufReader;
  [[noreturn]] void wrong(std::string_view wanted) const;
  void want_array() const;
  template <class T, class Read>
  std::vector<T> numbers(const Read& read) const;
  uint64_t bits() const;  // of a single value, zero- or sign-extended

  const std::string* place_ = nullptr;
  std::string_view key_;
  std::span<const std::byte> data_;  // from the value's first byte on
  GgufValueType type_ = GgufValueType::u8;
};

/// A tensor of the file; its views live as long as the file.
struct GgufTensor {
  std::string_view name;
  const GgufTypeRow* type = nullptr;
  int rank = 0;
  int64_t sizes[4] = {1, 1, 1, 1};  // as the format has them: the fastest dimension first
  std::span<const std::byte> bytes;

  int64_t num_elements() const { return sizes[0] * sizes[1] * sizes[2] * sizes[3]; }
  std::vector<int64_t> shape() const;  // row-major, as everywhere else in tern: the fastest dimension last
};

inline constexpr uint64_t kGgufMaxTensors = 1'000'000;
inline constexpr uint64_t kGgufMaxKeys = 100'000;
inline constexpr uint64_t kGgufMaxStringBytes = uint64_t{1} << 20;
inline constexpr uint64_t kGgufMaxKeyBytes = 65'535;
inline constexpr uint64_t kGgufMaxNameBytes = 64;
inline constexpr uint64_t kGgufMaxAlignment = uint64_t{1} << 20;
inline constexpr int kGgufMaxArrayDepth = 4;

/// A validated, mapped file, or the files of one model (formats/gguf/parts.h): those beside the first are opened with
/// it, and tensors() has the tensors of all.
/// Errors  bad_file: "PATH: [key 'K': | tensor 'T':] [byte N:] fact, expectation". Checked at opening: magic, version 3
///         (another is named, with a remedy), little endian; counts and lengths against the bytes that are there before
///         anything is allocated; keys ASCII, ≤ 65,535 bytes, none twice; value and element types 0 to 12, booleans 0
///         or 1, strings ≤ 1 MiB, arrays nested at most 4 deep; general.alignment a power of two from 8; tensor names ≤
///         64 bytes, none twice, rank ≤ 4, no size of 0, types of the format's table, rows of whole blocks, sizes
///         without overflow, offsets aligned, tensors one behind the other without hole or overlap, padding of zeros,
///         nothing behind the last.
/// Hazard  the file must not shrink while mapped.
/// Source  the format's description in ggml, and the tables of its Python package gguf 0.19.
class Gguf {
 public:
  explicit Gguf(const std::string& path);
  /// The same over bytes of the caller's, which must outlive the object.
  static Gguf over(std::span<const std::byte> bytes, std::string place);
  Gguf(Gguf&&) noexcept;
  Gguf& operator=(Gguf&&) noexcept;
  ~Gguf();

  const std::string& path() const { return *path_; }
  /// The files of the model, this one first.
  std::vector<std::string> paths() const;
  uint64_t alignment() const { return alignment_; }

  size_t num_keys() const { return keys_.size(); }
  std::string_view key(size_t i) const { return keys_[i].name; }  // in the file's order
  GgufValue value(size_t i) const;
  std::optional<GgufValue> find(std::string_view key) const;
  /// Errors: bad_file, with the nearest key, if there is none such.
  GgufValue get(std::string_view key) const;

  std::span<const GgufTensor> tensors() const { return tensors_; }  // in the order of files and of their bytes
  const GgufTensor* find_tensor(std::string_view name) const;
  /// The file that holds a tensor, by its place in paths(), and the byte at which the tensor begins in it.
  int file_of(const GgufTensor&) const;
  int64_t offset_of(const GgufTensor&) const;
  /// Maps this tensor's pages now instead of one by one when they are touched; a hint.
  void populate(const GgufTensor&) const;
  /// A hint that this tensor will not be read again: its pages leave the program's resident memory.
  void dont_need(const GgufTensor&) const;

 private:
  friend class GgufReader;
  struct Key {
    std::string_view name;
    GgufValueType type;
    size_t at;  // of the value, in the file
  };
  Gguf();
  void read_parts();
  /// Sorts tensors_by_name_. Returns a tensor whose name stands there twice, or null.
  const GgufTensor* index_tensors();
  bool holds(const GgufTensor&) const;
  void advise(const GgufTensor&, MappedFile::Advice) const;

  std::unique_ptr<std::string> path_;  // values point at it
  MappedFile map_;
  std::span<const std::byte> file_;
  std::vector<Key> keys_;
  std::vector<uint32_t> keys_by_name_;
  std::vector<GgufTensor> tensors_;
  std::vector<uint32_t> tensors_by_name_;
  uint64_t alignment_ = 32;
  std::vector<Gguf> parts_;  // the files beside the first
};

}  // namespace tern
