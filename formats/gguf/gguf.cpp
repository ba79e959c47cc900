#include "formats/gguf/gguf.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <numeric>

#include "base/error.h"
#include "base/text.h"
#include "base/utf8.h"
#include "formats/gguf/gguf_impl.h"

namespace tern {
namespace {

std::string shown(std::string_view name) { return make_printable(name.substr(0, 100)); }

}  // namespace

/// Walks over the file once, front to back.
class GgufReader {
 public:
  explicit GgufReader(Gguf& out) : out_(out), file_(out.file_) {}

  void read() {
    const auto [num_tensors, num_keys] = header();
    for (uint64_t i = 0; i < num_keys; ++i) key();
    index_keys();
    read_alignment();
    infos(num_tensors);
    place_tensors();
    index_tensors();
  }

 private:
  struct Info {
    uint64_t offset, bytes;
  };

  template <class... Args>
  [[noreturn]] void wrong(fmt::format_string<Args...> format, Args&&... args) const {
    throw Error(ErrorKind::bad_file, "{}: {}{}", *out_.path_, where_, fmt::format(format, std::forward<Args>(args)...));
  }
  uint64_t left() const { return file_.size() - at_; }
  void need(uint64_t bytes, const char* what) const {
    if (bytes > left())
      wrong("byte {}: the file ends {} bytes into {} of {} bytes; is it cut off?", at_, left(), what, bytes);
  }
  template <class T>
  T number(const char* what) {
    need(sizeof(T), what);
    const T value = gguf_load<T>(file_, at_);
    at_ += sizeof(T);
    return value;
  }
  std::string_view text(uint64_t most, const char* what) {
    const auto bytes = number<uint64_t>(what);
    if (bytes > most) wrong("byte {}: {} of {} bytes, at most {} are read", at_ - 8, what, bytes, most);
    need(bytes, what);
    const std::string_view s(reinterpret_cast<const char*>(file_.data()) + at_, static_cast<size_t>(bytes));
    at_ += static_cast<size_t>(bytes);
    return s;
  }

  std::pair<uint64_t, uint64_t> header() {
    need(24, "a header");
    if (std::memcmp(file_.data(), "GGUF", 4) != 0) wrong("byte 0: no GGUF file: it does not begin with 'GGUF'");
    at_ = 4;
    const auto version = number<uint32_t>("a version");
    if (version == 0x03000000u) wrong("byte 4: a big-endian file; tern reads little-endian ones");
    if (version != 3)
      wrong("byte 4: GGUF version {}, tern reads version 3; convert it again with a current converter", version);
    const auto num_tensors = number<uint64_t>("a count"), num_keys = number<uint64_t>("a count");
    constexpr uint64_t kKeyBytes = 8 + 1 + 4 + 1, kInfoBytes = 8 + 1 + 4 + 4 + 8;  // the least each takes
    if (num_tensors > kGgufMaxTensors || num_tensors > left() / kInfoBytes)
      wrong("byte 8: {} tensors cannot stand in {} bytes", num_tensors, left());
    if (num_keys > kGgufMaxKeys || num_keys > left() / kKeyBytes)
      wrong("byte 16: {} keys cannot stand in {} bytes", num_keys, left());
    return {num_tensors, num_keys};
  }

  GgufValueType value_type() {
    const auto type = number<uint32_t>("a type");
    if (type > static_cast<uint32_t>(GgufValueType::f64))
      wrong("byte {}: value type {}, the format has 0 to 12", at_ - 4, type);
    return static_cast<GgufValueType>(type);
  }

  void key() {
    const size_t begin = at_;
    const std::string_view name = text(kGgufMaxKeyBytes, "a key");
    if (name.empty()) wrong("byte {}: an empty key", begin);
    if (!std::all_of(name.begin(), name.end(), [](char c) { return c > 0x20 && c < 0x7f; }))
      wrong("byte {}: key '{}' is not printable ASCII", begin, shown(name));
    where_ = fmt::format("key '{}': ", shown(name));
    const GgufValueType type = value_type();
    out_.keys_.push_back({name, type, at_});
    value(type, 0);
    where_.clear();
  }

  void boolean(size_t at) const {
    if (gguf_load<uint8_t>(file_, at) > 1)
      wrong("byte {}: boolean {}, must be 0 or 1", at, gguf_load<uint8_t>(file_, at));
  }

  void value(GgufValueType type, int depth) {
    if (type == GgufValueType::string) {
      const size_t begin = at_;
      const std::string_view s = text(kGgufMaxStringBytes, "a string");
      if (depth == 0 && !is_valid_utf8(s)) wrong("byte {}: a string that is not UTF-8", begin + 8);
      return;
    }
    if (type != GgufValueType::array) {
      const size_t bytes = gguf_value_bytes(type);
      need(bytes, "a value");
      if (type == GgufValueType::boolean) boolean(at_);
      at_ += bytes;
      return;
    }
    if (depth >= kGgufMaxArrayDepth) wrong("byte {}: arrays nested more than {} deep", at_, kGgufMaxArrayDepth);
    const GgufValueType inner = value_type();
    const auto count = number<uint64_t>("a count");
    const size_t fixed = gguf_value_bytes(inner), least = fixed ? fixed : inner == GgufValueType::string ? 8 : 12;
    if (count > left() / least)
      wrong("byte {}: an array of {} {} elements in {} bytes", at_ - 8, count, name_of(inner), left());
    if (!fixed) {
      for (uint64_t i = 0; i < count; ++i) value(inner, depth + 1);
      return;
    }
    if (inner == GgufValueType::boolean)
      for (size_t i = 0; i < count; ++i) boolean(at_ + i);
    at_ += fixed * static_cast<size_t>(count);
  }

  void index_keys() {
    auto& order = out_.keys_by_name_;
    order.resize(out_.keys_.size());
    std::iota(order.begin(), order.end(), 0u);
    std::sort(order.begin(), order.end(),
              [&](uint32_t a, uint32_t b) { return out_.keys_[a].name < out_.keys_[b].name; });
    for (size_t i = 1; i < order.size(); ++i)
      if (out_.keys_[order[i]].name == out_.keys_[order[i - 1]].name)
        wrong("key '{}' stands there twice", shown(out_.keys_[order[i]].name));
  }

  void read_alignment() {
    const auto found = out_.find("general.alignment");
    if (!found) return;
    if (found->type() != GgufValueType::u32)
      wrong("key 'general.alignment': type {}, must be u32", name_of(found->type()));
    const uint64_t alignment = found->as_u64();
    if (alignment < 8 || alignment > kGgufMaxAlignment || !std::has_single_bit(alignment))
      wrong("key 'general.alignment': {}, must be a power of two from 8 to {}", alignment, kGgufMaxAlignment);
    out_.alignment_ = alignment;
  }

  void infos(uint64_t num_tensors) {
    out_.tensors_.reserve(static_cast<size_t>(num_tensors));
    infos_.reserve(static_cast<size_t>(num_tensors));
    for (uint64_t i = 0; i < num_tensors; ++i) {
      const size_t begin = at_;
      GgufTensor t;
      t.name = text(kGgufMaxNameBytes, "a tensor's name");
      if (t.name.empty()) wrong("byte {}: a tensor without a name", begin);
      where_ = fmt::format("tensor '{}': ", shown(t.name));
      if (!is_valid_utf8(t.name)) wrong("its name is not UTF-8");
      const auto rank = number<uint32_t>("a rank");
      if (rank > 4) wrong("byte {}: {} dimensions, at most 4", at_ - 4, rank);
      t.rank = static_cast<int>(rank);
      uint64_t elements = 1;
      for (uint32_t d = 0; d < rank; ++d) {
        const auto size = number<uint64_t>("a size");
        if (size == 0) wrong("byte {}: dimension {} is 0", at_ - 8, d);
        if (__builtin_mul_overflow(elements, size, &elements) || elements > uint64_t{1} << 60)
          wrong("byte {}: more elements than any memory holds", at_ - 8);
        t.sizes[d] = static_cast<int64_t>(size);
      }
      const auto type = number<uint32_t>("a type");
      t.type = gguf_type_row(type);
      if (!t.type) wrong("byte {}: tensor type {} is not one of the format's (or was removed from it)", at_ - 4, type);
      if (t.sizes[0] % t.type->block_elements != 0)
        wrong("rows of {} elements, {} comes in blocks of {}", t.sizes[0], t.type->name, t.type->block_elements);
      Info info;
      info.bytes =
          elements / static_cast<uint64_t>(t.type->block_elements) * static_cast<uint64_t>(t.type->block_bytes);
      info.offset = number<uint64_t>("an offset");
      if (info.offset % out_.alignment_ != 0)
        wrong("byte {}: offset {} is no multiple of the alignment {}", at_ - 8, info.offset, out_.alignment_);
      infos_.push_back(info);
      out_.tensors_.push_back(t);
      where_.clear();
    }
  }

  void zeros(uint64_t begin, uint64_t end) const {
    for (uint64_t i = begin; i < end; ++i)
      if (file_[static_cast<size_t>(i)] != std::byte{0})
        wrong("byte {}: {} in the padding, which must be zero", i, static_cast<int>(file_[static_cast<size_t>(i)]));
  }
  uint64_t aligned(uint64_t n) const { return (n + out_.alignment_ - 1) / out_.alignment_ * out_.alignment_; }

  void place_tensors() {
    const uint64_t size = file_.size(), data = aligned(at_);
    if (infos_.empty()) {  // a vocabulary: at most padding follows
      if (size > data) wrong("{} bytes behind the header of a file without tensors", size - at_);
      return zeros(at_, size);
    }
    if (data > size) wrong("byte {}: the file ends before its data begin", at_);
    zeros(at_, data);
    std::vector<uint32_t> order(infos_.size());
    std::iota(order.begin(), order.end(), 0u);
    std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return infos_[a].offset < infos_[b].offset; });
    uint64_t end = 0;  // of the tensor before, from the first data byte
    std::vector<GgufTensor> sorted;
    sorted.reserve(order.size());
    for (const uint32_t i : order) {
      GgufTensor t = out_.tensors_[i];
      const Info& info = infos_[i];
      where_ = fmt::format("tensor '{}': ", shown(t.name));
      if (info.offset != aligned(end))
        wrong("begins at {} of the data, {} is where the tensor before it ends: a {}", info.offset, aligned(end),
              info.offset < aligned(end) ? "overlap" : "hole");
      if (info.offset > size - data || info.bytes > size - data - info.offset)
        wrong("{} bytes from {} of the data, which has {}; is the file cut off?", info.bytes, info.offset, size - data);
      zeros(data + end, data + info.offset);
      t.bytes = file_.subspan(static_cast<size_t>(data + info.offset), static_cast<size_t>(info.bytes));
      sorted.push_back(t);
      end = info.offset + info.bytes;
      where_.clear();
    }
    if (size - data > aligned(end)) wrong("{} bytes behind the last tensor", size - data - end);
    zeros(data + end, size);
    out_.tensors_ = std::move(sorted);
  }

  void index_tensors() {
    if (const GgufTensor* twice = out_.index_tensors()) wrong("tensor '{}' stands there twice", shown(twice->name));
  }

  Gguf& out_;
  std::span<const std::byte> file_;
  size_t at_ = 0;
  std::string where_;
  std::vector<Info> infos_;
};

Gguf::Gguf() = default;
Gguf::Gguf(Gguf&&) noexcept = default;
Gguf& Gguf::operator=(Gguf&&) noexcept = default;
Gguf::~Gguf() = default;

Gguf::Gguf(const std::string& path) : path_(std::make_unique<std::string>(path)), map_(path) {
  file_ = map_.bytes();
  GgufReader(*this).read();
  read_parts();
}

Gguf Gguf::over(std::span<const std::byte> bytes, std::string place) {
  Gguf out;
  out.path_ = std::make_unique<std::string>(std::move(place));
  out.file_ = bytes;
  GgufReader(out).read();
  return out;
}

GgufValue Gguf::value(size_t i) const {
  GgufValue v;
  v.place_ = path_.get();
  v.key_ = keys_[i].name;
  v.type_ = keys_[i].type;
  v.data_ = file_.subspan(keys_[i].at);
  return v;
}

std::optional<GgufValue> Gguf::find(std::string_view key) const {
  const auto found = std::lower_bound(keys_by_name_.begin(), keys_by_name_.end(), key,
                                      [&](uint32_t i, std::string_view k) { return keys_[i].name < k; });
  if (found == keys_by_name_.end() || keys_[*found].name != key) return std::nullopt;
  return value(*found);
}

GgufValue Gguf::get(std::string_view key) const {
  if (const auto found = find(key)) return *found;
  std::vector<std::string_view> names;
  for (const Key& k : keys_) names.push_back(k.name);
  throw Error(ErrorKind::bad_file, "{}: no key '{}'{}", *path_, shown(key), did_you_mean(key, names));
}

const GgufTensor* Gguf::find_tensor(std::string_view name) const {
  const auto found = std::lower_bound(tensors_by_name_.begin(), tensors_by_name_.end(), name,
                                      [&](uint32_t i, std::string_view n) { return tensors_[i].name < n; });
  return found == tensors_by_name_.end() || tensors_[*found].name != name ? nullptr : &tensors_[*found];
}

const GgufTensor* Gguf::index_tensors() {
  auto& order = tensors_by_name_;
  order.resize(tensors_.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return tensors_[a].name < tensors_[b].name; });
  for (size_t i = 1; i < order.size(); ++i)
    if (tensors_[order[i]].name == tensors_[order[i - 1]].name) return &tensors_[order[i]];
  return nullptr;
}

std::vector<std::string> Gguf::paths() const {
  std::vector<std::string> all{path()};
  for (const Gguf& part : parts_) all.push_back(part.path());
  return all;
}

bool Gguf::holds(const GgufTensor& t) const {
  return t.bytes.data() >= file_.data() && t.bytes.data() < file_.data() + file_.size();
}

int Gguf::file_of(const GgufTensor& t) const {
  for (size_t i = 0; i < parts_.size(); ++i)
    if (parts_[i].holds(t)) return static_cast<int>(i) + 1;
  return 0;
}

int64_t Gguf::offset_of(const GgufTensor& t) const {
  const int file = file_of(t);
  return t.bytes.data() - (file == 0 ? file_ : parts_[static_cast<size_t>(file) - 1].file_).data();
}

void Gguf::advise(const GgufTensor& t, MappedFile::Advice advice) const {
  const int file = file_of(t);
  const MappedFile& map = file == 0 ? map_ : parts_[static_cast<size_t>(file) - 1].map_;
  if (map.size() > 0) map.advise(advice, static_cast<size_t>(offset_of(t)), t.bytes.size());
}

void Gguf::populate(const GgufTensor& t) const { advise(t, MappedFile::Advice::populate); }

void Gguf::dont_need(const GgufTensor& t) const { advise(t, MappedFile::Advice::dont_need); }

std::vector<int64_t> GgufTensor::shape() const {
  std::vector<int64_t> out(sizes, sizes + rank);
  std::reverse(out.begin(), out.end());
  return out;
}

}  // namespace tern
