#include "formats/gguf/write.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <set>

#include "base/error.h"
#include "base/publish.h"
#include "base/text.h"
#include "base/utf8.h"
#include "formats/gguf/gguf_impl.h"
#include "formats/gguf/round_blocks.h"

namespace tern {
namespace {

constexpr int64_t kAlignment = 32;

template <class T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}
void put_text(std::string& out, std::string_view text) {
  put(out, static_cast<uint64_t>(text.size()));
  out += text;
}
void put_type(std::string& out, GgufValueType type) { put(out, static_cast<uint32_t>(type)); }
void put_array(std::string& out, GgufValueType type, size_t count) {
  put_type(out, type);
  put(out, static_cast<uint64_t>(count));
}

template <class... Args>
[[noreturn]] void misuse(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(ErrorKind::usage, "write_gguf: {}", fmt::format(format, std::forward<Args>(args)...));
}

void check_string(const std::string& key, std::string_view text) {
  if (text.size() > kGgufMaxStringBytes) misuse("key '{}': a string of {} bytes, at most 1 MiB", key, text.size());
  if (!is_valid_utf8(text)) misuse("key '{}': not UTF-8", key);
}

struct Plan {
  const WeightTypeRow* row = nullptr;
  int64_t elements = 1, bytes = 0;
};

Plan plan_of(const GgufTensorToWrite& t) {
  const auto wrong = [&](const std::string& what) {
    misuse("tensor '{}': {}", make_printable(t.name.substr(0, 100)), what);
  };
  if (t.name.empty() || t.name.size() > kGgufMaxNameBytes || !is_valid_utf8(t.name))
    wrong(fmt::format("a name of {} bytes; 1 to {} of UTF-8 fit", t.name.size(), kGgufMaxNameBytes));
  if (t.coded.empty() && !t.produce_coded && !rounds_to(t.type))
    wrong(fmt::format("tern writes {}", names_that_round()));
  if (t.shape.size() > 4) wrong(fmt::format("{} dimensions, at most 4", t.shape.size()));
  Plan plan;
  plan.row = &row_of(t.type);
  for (const int64_t size : t.shape)
    if (size < 1 || __builtin_mul_overflow(plan.elements, size, &plan.elements) || plan.elements > int64_t{1} << 60)
      wrong(fmt::format("shape [{}]", fmt::join(t.shape, ", ")));
  const int64_t width = t.shape.empty() ? 1 : t.shape.back();
  if (width % plan.row->block_elements != 0)
    wrong(
        fmt::format("rows of {} elements, {} comes in blocks of {}", width, plan.row->name, plan.row->block_elements));
  plan.bytes = plan.elements / plan.row->block_elements * plan.row->block_bytes;
  if (plan.row->gguf == kNotInGguf) wrong(fmt::format("{} is no type of GGUF's", plan.row->name));
  if (!t.coded.empty() && static_cast<int64_t>(t.coded.size()) != plan.bytes)
    wrong(fmt::format("{} coded bytes, its shape takes {}", t.coded.size(), plan.bytes));
  return plan;
}

// Turns the producer's pieces into the tensor's bytes.
class Encoder {
 public:
  Encoder(const GgufTensorToWrite& tensor, const Plan& plan, IoFile& file)
      : tensor_(tensor), plan_(plan), file_(file) {}

  void take(std::span<const float> values) {
    count_ += static_cast<int64_t>(values.size());
    if (count_ > plan_.elements) short_or_long();
    const auto block = static_cast<size_t>(plan_.row->block_elements);
    while (!values.empty()) {
      if (block > 1 && (!carry_.empty() || values.size() < block)) {
        const size_t part = std::min(block - carry_.size(), values.size());
        carry_.insert(carry_.end(), values.begin(), values.begin() + static_cast<ptrdiff_t>(part));
        values = values.subspan(part);
        if (carry_.size() == block) {
          encode(carry_);
          carry_.clear();
        }
        continue;
      }
      encode(values.subspan(0, block));
      values = values.subspan(block);
    }
  }
  void finish() {
    if (count_ != plan_.elements) short_or_long();
    flush();
  }

 private:
  [[noreturn]] void short_or_long() const {
    misuse("tensor '{}': the producer gave {}{} values, its shape takes {}", tensor_.name,
           count_ > plan_.elements ? "at least " : "", count_, plan_.elements);
  }
  void encode(std::span<const float> x) {
    round_blocks(tensor_.type, x, tensor_.name, buffer_);
    if (buffer_.size() >= size_t{1} << 20) flush();
  }
  void flush() {
    if (!buffer_.empty()) file_.append(buffer_);
    buffer_.clear();
  }

  const GgufTensorToWrite& tensor_;
  const Plan& plan_;
  IoFile& file_;
  int64_t count_ = 0;
  std::vector<float> carry_;
  std::string buffer_;
};

}  // namespace

void GgufMetadata::begin(const std::string& key, GgufValueType type) {
  if (key.empty() || key.size() > kGgufMaxKeyBytes ||
      !std::all_of(key.begin(), key.end(), [](char c) { return c > 0x20 && c < 0x7f; }))
    misuse("key '{}' is no printable ASCII", make_printable(key.substr(0, 100)));
  if (std::find(keys_.begin(), keys_.end(), key) != keys_.end()) misuse("key '{}' is given twice", key);
  if (key == "general.alignment") misuse("the alignment is fixed");
  if (keys_.size() >= kGgufMaxKeys) misuse("more than {} keys", kGgufMaxKeys);
  keys_.push_back(key);
  put_text(bytes_, key);
  put_type(bytes_, type);
}
void GgufMetadata::add(const std::string& key, std::string_view value) {
  check_string(key, value);
  begin(key, GgufValueType::string);
  put_text(bytes_, value);
}
void GgufMetadata::add(const std::string& key, bool value) {
  begin(key, GgufValueType::boolean);
  put(bytes_, static_cast<uint8_t>(value ? 1 : 0));
}
void GgufMetadata::add(const std::string& key, uint16_t value) {
  begin(key, GgufValueType::u16);
  put(bytes_, value);
}
void GgufMetadata::add(const std::string& key, uint32_t value) {
  begin(key, GgufValueType::u32);
  put(bytes_, value);
}
void GgufMetadata::add(const std::string& key, int32_t value) {
  begin(key, GgufValueType::i32);
  put(bytes_, value);
}
void GgufMetadata::add(const std::string& key, uint64_t value) {
  begin(key, GgufValueType::u64);
  put(bytes_, value);
}
void GgufMetadata::add(const std::string& key, float value) {
  begin(key, GgufValueType::f32);
  put(bytes_, value);
}
void GgufMetadata::add(const std::string& key, std::span<const std::string> values) {
  for (const std::string& v : values) check_string(key, v);
  begin(key, GgufValueType::array);
  put_array(bytes_, GgufValueType::string, values.size());
  for (const std::string& v : values) put_text(bytes_, v);
}
void GgufMetadata::add(const std::string& key, std::span<const float> values) {
  begin(key, GgufValueType::array);
  put_array(bytes_, GgufValueType::f32, values.size());
  for (const float v : values) put(bytes_, v);
}
void GgufMetadata::add(const std::string& key, std::span<const int32_t> values) {
  begin(key, GgufValueType::array);
  put_array(bytes_, GgufValueType::i32, values.size());
  for (const int32_t v : values) put(bytes_, v);
}

int64_t write_gguf(Io& io, const std::string& path, const GgufMetadata& metadata,
                   std::span<const GgufTensorToWrite> tensors) {
  if (tensors.size() > kGgufMaxTensors) misuse("{} tensors, at most {}", tensors.size(), kGgufMaxTensors);
  std::string header = "GGUF";
  put(header, uint32_t{3});
  put(header, static_cast<uint64_t>(tensors.size()));
  put(header, metadata.count());
  header += metadata.bytes();
  std::vector<Plan> plans;
  std::set<std::string_view> names;
  const auto aligned = [](int64_t n) { return (n + kAlignment - 1) / kAlignment * kAlignment; };
  int64_t offset = 0;
  for (const GgufTensorToWrite& t : tensors) {
    plans.push_back(plan_of(t));
    if (!names.insert(t.name).second) misuse("tensor '{}' is given twice", t.name);
    put_text(header, t.name);
    put(header, static_cast<uint32_t>(t.shape.size()));
    for (size_t d = t.shape.size(); d > 0; --d) put(header, static_cast<uint64_t>(t.shape[d - 1]));
    put(header, row_of(t.type).gguf);
    put(header, static_cast<uint64_t>(offset));
    offset = aligned(offset + plans.back().bytes);
  }
  header.resize(static_cast<size_t>(aligned(static_cast<int64_t>(header.size()))), '\0');

  OutputFile output(io, path);
  output.append(header);
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].produce_coded) {
      int64_t given = 0;
      tensors[i].produce_coded([&](std::span<const std::byte> bytes) {
        given += static_cast<int64_t>(bytes.size());
        output.append(bytes);
      });
      if (given != plans[i].bytes)
        misuse("tensor '{}': the producer gave {} bytes, its shape takes {}", tensors[i].name, given, plans[i].bytes);
    } else if (tensors[i].coded.empty()) {
      Encoder encoder(tensors[i], plans[i], output.file());
      tensors[i].produce([&](std::span<const float> values) { encoder.take(values); });
      encoder.finish();
    } else {
      output.append(std::span(reinterpret_cast<const std::byte*>(tensors[i].coded.data()), tensors[i].coded.size()));
    }
    const auto padding = static_cast<size_t>(aligned(plans[i].bytes) - plans[i].bytes);
    if (padding > 0) output.append(std::string(padding, '\0'));
  }
  output.publish();
  return static_cast<int64_t>(header.size()) + offset;
}

}  // namespace tern
