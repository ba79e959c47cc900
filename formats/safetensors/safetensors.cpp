#include "formats/safetensors/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "formats/safetensors/safetensors_impl.h"

namespace tern {
namespace {

static_assert(std::endian::native == std::endian::little,
              "safetensors are little-endian; this machine would need swaps");

constexpr uint8_t kNoType = 255;

/// Walks the header's JSON once, keeping only what is valid; anything else throws at once, so memory is bounded by the
/// header's size and depth by three.
class HeaderReader {
 public:
  using number_integer_t = nlohmann::json::number_integer_t;
  using number_unsigned_t = nlohmann::json::number_unsigned_t;
  using number_float_t = nlohmann::json::number_float_t;
  using string_t = nlohmann::json::string_t;
  using binary_t = nlohmann::json::binary_t;

  HeaderReader(const std::string& place, std::vector<Safetensors::Entry>& entries, std::vector<int64_t>& shapes,
               std::map<std::string, std::string>& metadata)
      : place_(place), entries_(entries), shapes_(shapes), metadata_(metadata) {}

  bool null() { return unexpected("null"); }
  bool boolean(bool) { return unexpected("true or false"); }
  bool number_float(number_float_t, const string_t& text) { return unexpected("the number " + shown(text)); }
  bool binary(binary_t&) { return unexpected("binary data"); }
  bool number_integer(number_integer_t value) { return unexpected(fmt::format("the number {}", value)); }

  bool number_unsigned(number_unsigned_t value) {
    if (at_ != At::shape && at_ != At::offsets) return unexpected(fmt::format("the number {}", value));
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
      fail("{} holds {}, expected at most 2^63 - 1", field(), value);
    if (at_ == At::shape) {
      if (entry().rank >= kSafetensorsMaxRank) fail("more than {} dimensions", kSafetensorsMaxRank);
      shapes_.push_back(static_cast<int64_t>(value));
      ++entry().rank;
    } else {
      if (num_offsets_ == 2) fail("data_offsets holds more than two numbers");
      (num_offsets_ == 0 ? entry().begin : entry().end) = value;
      ++num_offsets_;
    }
    return true;
  }

  bool string(string_t& text) {
    if (text.size() > kSafetensorsMaxStringBytes) fail("a string of {} bytes, expected at most 1 MiB", text.size());
    if (at_ == At::metadata_value) {
      metadata_.emplace(std::move(key_), std::move(text));
      at_ = At::metadata;
      return true;
    }
    if (at_ != At::dtype) return unexpected("the string " + shown(text));
    const int row = safetensors_type_row(text);
    if (row < 0) fail("unknown dtype {}; the format has {}", shown(text), known_types());
    entry().type = static_cast<uint8_t>(row);
    at_ = At::tensor;
    return true;
  }

  bool start_object(std::size_t) {
    switch (at_) {
      case At::start:
        at_ = At::top;
        return true;
      case At::metadata_begin:
        at_ = At::metadata;
        return true;
      case At::tensor_begin:
        at_ = At::tensor;
        entry().type = kNoType;
        entry().shape_begin = static_cast<uint32_t>(shapes_.size());
        has_shape_ = has_offsets_ = false;
        num_offsets_ = 0;
        return true;
      default:
        return unexpected("an object");
    }
  }

  bool key(string_t& name) {
    if (name.size() > kSafetensorsMaxStringBytes) fail("a key of {} bytes, expected at most 1 MiB", name.size());
    switch (at_) {
      case At::top:
        if (name == "__metadata__") {
          if (std::exchange(has_metadata_, true)) fail_plain("the key \"__metadata__\" appears twice");
          at_ = At::metadata_begin;
          return true;
        }
        if (entries_.size() >= kSafetensorsMaxTensors) fail_plain("more than a million tensors");
        entries_.emplace_back().name = std::move(name);
        in_tensor_ = true;
        at_ = At::tensor_begin;
        return true;
      case At::metadata:
        if (metadata_.contains(name)) fail_plain("__metadata__: the key {} appears twice", shown(name));
        if (metadata_.size() >= kSafetensorsMaxMetadata)
          fail_plain("__metadata__ holds more than {} keys", kSafetensorsMaxMetadata);
        key_ = std::move(name);
        at_ = At::metadata_value;
        return true;
      default:
        return tensor_key(name);
    }
  }

  bool start_array(std::size_t) {
    if (at_ == At::shape_begin) return at_ = At::shape, true;
    if (at_ == At::offsets_begin) return at_ = At::offsets, true;
    return unexpected("an array");
  }

  bool end_array() {
    if (at_ == At::offsets && num_offsets_ != 2)
      fail("data_offsets holds {} numbers, expected [begin, end]", num_offsets_);
    at_ = At::tensor;
    return true;
  }

  bool end_object() {
    if (at_ == At::tensor) check_tensor();
    at_ = At::top;
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception& error) {
    std::string_view why = error.what();  // "[json.exception…] parse error at line 1, column 5: …": keep the reason
    if (const size_t colon = why.find(": "); colon != std::string_view::npos) why.remove_prefix(colon + 2);
    throw Error(ErrorKind::bad_file,
                "{}: header is not JSON at byte {}: {}; the file is damaged or no safetensors file", place_,
                position + 7, shown(why));
  }

 private:
  enum class At : uint8_t {
    start,
    top,
    metadata_begin,
    metadata,
    metadata_value,
    tensor_begin,
    tensor,
    dtype,
    shape_begin,
    shape,
    offsets_begin,
    offsets,
  };

  Safetensors::Entry& entry() { return entries_.back(); }

  template <class... Args>
  [[noreturn]] void fail_plain(fmt::format_string<Args...> format, Args&&... args) {
    throw Error(ErrorKind::bad_file, "{}: {}", place_, fmt::format(format, std::forward<Args>(args)...));
  }
  template <class... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
    const std::string what = fmt::format(format, std::forward<Args>(args)...);
    if (!in_tensor_) fail_plain("{}", what);
    fail_plain("tensor {}: {}", shown(entry().name), what);
  }

  const char* field() const { return at_ == At::shape ? "shape" : "data_offsets"; }

  bool unexpected(const std::string& what) {
    switch (at_) {
      case At::start:
        fail_plain("header is {}, expected an object", what);
      case At::metadata_begin:
        fail_plain("__metadata__ is {}, expected an object of strings", what);
      case At::metadata_value:
        fail_plain("__metadata__: {} is {}, expected a string", shown(key_), what);
      case At::tensor_begin:
        fail("{}, expected an object with dtype, shape and data_offsets", what);
      case At::dtype:
        fail("dtype is {}, expected a string", what);
      case At::shape_begin:
        fail("shape is {}, expected an array of sizes", what);
      case At::offsets_begin:
        fail("data_offsets is {}, expected [begin, end]", what);
      default:
        fail("{} holds {}, expected whole numbers of at least 0", field(), what);
    }
  }

  bool tensor_key(const std::string& name) {
    const auto once = [&](bool seen) {
      if (seen) fail("the key {} appears twice", shown(name));
    };
    if (name == "dtype") {
      once(entry().type != kNoType);
      at_ = At::dtype;
    } else if (name == "shape") {
      once(std::exchange(has_shape_, true));
      at_ = At::shape_begin;
    } else if (name == "data_offsets") {
      once(std::exchange(has_offsets_, true));
      at_ = At::offsets_begin;
    } else {
      fail("unknown key {}, expected dtype, shape and data_offsets", shown(name));
    }
    return true;
  }

  void check_tensor() {
    in_tensor_ = false;
    const Safetensors::Entry& e = entry();
    const auto missing = [&](const char* what) { fail_plain("tensor {}: no {}", shown(e.name), what); };
    if (e.type == kNoType) missing("dtype");
    if (!has_shape_) missing("shape");
    if (!has_offsets_) missing("data_offsets");
    if (e.begin > e.end)
      fail_plain("tensor {}: data_offsets [{}, {}] end before they begin", shown(e.name), e.begin, e.end);
    const SafetensorsType& type = safetensors_types()[e.type];
    const std::span<const int64_t> shape = std::span(shapes_).subspan(e.shape_begin, e.rank);
    const std::optional<int64_t> bytes = safetensors_bytes(shape, type.bits);
    if (!bytes)
      fail_plain("tensor {}: shape [{}] of {} is no whole number of bytes below 2^60", shown(e.name),
                 fmt::join(shape, ", "), type.name);
    if (static_cast<uint64_t>(*bytes) != e.end - e.begin)
      fail_plain("tensor {}: shape [{}] of {} takes {} bytes, data_offsets [{}, {}] give {}", shown(e.name),
                 fmt::join(shape, ", "), type.name, *bytes, e.begin, e.end, e.end - e.begin);
  }

  static std::string known_types() {
    std::string names;
    for (const SafetensorsType& t : safetensors_types()) names += (names.empty() ? "" : ", ") + std::string(t.name);
    return names;
  }

  const std::string& place_;
  std::vector<Safetensors::Entry>& entries_;
  std::vector<int64_t>& shapes_;
  std::map<std::string, std::string>& metadata_;
  At at_ = At::start;
  std::string key_;
  int num_offsets_ = 0;
  bool has_metadata_ = false, has_shape_ = false, has_offsets_ = false, in_tensor_ = false;
};

/// Offsets sorted must tile [0, size): no hole, no overlap, nothing left at the end.
void check_tiling(const std::string& place, const std::vector<Safetensors::Entry>& entries, uint64_t size) {
  uint64_t reached = 0;
  for (const Safetensors::Entry& e : entries) {
    if (e.begin != reached)
      throw Error(ErrorKind::bad_file, "{}: tensor {}: data_offsets [{}, {}] {} the bytes before it, which end at {}",
                  place, shown(e.name), e.begin, e.end, e.begin < reached ? "overlap" : "leave a hole after", reached);
    if (e.end > size)
      throw Error(ErrorKind::bad_file,
                  "{}: tensor {}: data_offsets [{}, {}] reach past the file's {} data bytes; the file is cut short, "
                  "fetch it again",
                  place, shown(e.name), e.begin, e.end, size);
    reached = e.end;
  }
  if (reached != size)
    throw Error(ErrorKind::bad_file, "{}: {} bytes after the last tensor, expected none; the file is damaged", place,
                size - reached);
}

}  // namespace

int64_t TensorView::num_elements() const {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

Safetensors::Safetensors(const std::string& path) : path_(path), map_(path) { read(map_.bytes()); }

Safetensors Safetensors::over(std::span<const std::byte> bytes, std::string place) {
  Safetensors file;
  file.path_ = std::move(place);
  file.read(bytes);
  return file;
}

void Safetensors::read(std::span<const std::byte> file) {
  if (file.size() < 8)
    throw Error(ErrorKind::bad_file, "{}: {} bytes, expected at least the 8 of a header length; the file is cut short",
                path_, file.size());
  constexpr std::string_view kLfs = "version https://git-lfs";
  if (file.size() >= kLfs.size() && std::memcmp(file.data(), kLfs.data(), kLfs.size()) == 0)
    throw Error(ErrorKind::bad_file, "{}: a Git LFS pointer, not the weights; run `git lfs pull` in its directory",
                path_);
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, file.data(), 8);
  if (header_bytes > kSafetensorsMaxHeaderBytes)
    throw Error(ErrorKind::bad_file, "{}: header of {} bytes, expected at most 100 MB; no safetensors file?", path_,
                header_bytes);
  if (header_bytes > file.size() - 8)
    throw Error(ErrorKind::bad_file, "{}: header of {} bytes in a file of {}; the file is cut short, fetch it again",
                path_, header_bytes, file.size());
  const char* header = reinterpret_cast<const char*>(file.data()) + 8;
  if (header_bytes == 0 || header[0] != '{')
    throw Error(ErrorKind::bad_file, "{}: header does not begin with '{{'; no safetensors file?", path_);
  // The JSON library takes a zero byte for the end of its input; what stood behind one would be a second, unread file.
  if (const void* zero = std::memchr(header, 0, header_bytes))
    throw Error(ErrorKind::bad_file, "{}: header is not JSON at byte {}: a zero byte; the file is damaged", path_,
                static_cast<const char*>(zero) - header + 8);
  data_ = file.subspan(8 + header_bytes);

  HeaderReader reader(path_, entries_, shapes_, metadata_);
  nlohmann::json::sax_parse(header, header + header_bytes, &reader);

  // Empty tensors sort before the one that begins where they lie.
  std::sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  by_name_.resize(entries_.size());
  std::iota(by_name_.begin(), by_name_.end(), 0u);
  std::sort(by_name_.begin(), by_name_.end(),
            [&](uint32_t a, uint32_t b) { return entries_[a].name < entries_[b].name; });
  for (size_t i = 1; i < by_name_.size(); ++i)
    if (entries_[by_name_[i]].name == entries_[by_name_[i - 1]].name)
      throw Error(ErrorKind::bad_file, "{}: tensor {} appears twice", path_, shown(entries_[by_name_[i]].name));
  check_tiling(path_, entries_, data_.size());
}

TensorView Safetensors::operator[](size_t i) const {
  const Entry& e = entries_.at(i);
  const SafetensorsType& type = safetensors_types()[e.type];
  return {.name = e.name,
          .dtype_name = type.name,
          .dtype = type.dtype,
          .shape = std::span(shapes_).subspan(e.shape_begin, e.rank),
          .bytes = data_.subspan(e.begin, e.end - e.begin)};
}

std::optional<TensorView> Safetensors::find(std::string_view name) const {
  const auto it = std::lower_bound(by_name_.begin(), by_name_.end(), name,
                                   [&](uint32_t i, std::string_view n) { return entries_[i].name < n; });
  if (it == by_name_.end() || entries_[*it].name != name) return {};
  return (*this)[*it];
}

TensorView Safetensors::get(std::string_view name) const {
  const std::optional<TensorView> found = find(name);
  if (!found) {
    std::vector<std::string_view> names;
    for (const Entry& e : entries_) names.push_back(e.name);
    throw Error(ErrorKind::bad_file, "{}: no tensor {} among {}{}", path_, shown(name), size(),
                nearest_tensor(name, names));
  }
  check_readable(path_, *found);
  return *found;
}

void Safetensors::advise(size_t i, MappedFile::Advice advice) const {
  const Entry& e = entries_.at(i);
  const size_t data_begin = map_.size() - data_.size();
  if (map_.size() > 0) map_.advise(advice, data_begin + e.begin, e.end - e.begin);
}
void Safetensors::will_need(size_t i) const { advise(i, MappedFile::Advice::will_need); }
void Safetensors::dont_need(size_t i) const { advise(i, MappedFile::Advice::dont_need); }
void Safetensors::populate(size_t i) const { advise(i, MappedFile::Advice::populate); }

}  // namespace tern
