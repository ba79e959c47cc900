#pragma once
// Writing GGUF, version 3: streamed, and the same input always gives the same bytes.

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/byte_sink.h"
#include "formats/gguf/gguf.h"

namespace tern {

class Io;

/// Metadata in the order it is added.
/// Errors  usage: a key that is no printable ASCII or stands there already, a string over 1 MiB or not UTF-8, more
///         than the reader would accept.
class GgufMetadata {
 public:
  void add(const std::string& key, std::string_view value);
  void add(const std::string& key, const char* value) { add(key, std::string_view(value)); }
  void add(const std::string& key, bool value);
  void add(const std::string& key, uint16_t value);
  void add(const std::string& key, uint32_t value);
  void add(const std::string& key, int32_t value);
  void add(const std::string& key, uint64_t value);
  void add(const std::string& key, float value);
  void add(const std::string& key, std::span<const std::string> values);
  void add(const std::string& key, std::span<const float> values);
  void add(const std::string& key, std::span<const int32_t> values);

  uint64_t count() const { return keys_.size(); }
  const std::string& bytes() const { return bytes_; }

 private:
  void begin(const std::string& key, GgufValueType type);
  std::vector<std::string> keys_;
  std::string bytes_;
};

/// Takes the next values of a tensor, any number at a time.
using FloatSink = std::function<void(std::span<const float>)>;

/// A tensor to write: its values, or its coded bytes.
struct GgufTensorToWrite {
  std::string name;
  WeightType type = WeightType::f32;  // one that rounds_to knows
  std::vector<int64_t> shape;         // row-major: the fastest dimension last
  std::function<void(const FloatSink&)> produce;
  // Instead of `produce`, for any type of GGUF: all the tensor's bytes, or a function that gives them in order.
  std::span<const std::byte> coded = {};
  std::function<void(const ByteSink&)> produce_coded = {};
};

/// Writes `path` as an OutputFile. `general.alignment` is 32 and not written.
/// Numbers are rounded by round_blocks (formats/gguf/round_blocks.h): the bits of the format's reference.
/// Returns the file's size. Order  tensors as given.
/// Errors  usage: a name twice, empty or over 64 bytes, a rank over 4, a size below 1, rows that are no multiple of the
///         block, a producer of too few or too many values or bytes, another type; bad_file: a number that the type
///         cannot hold; those of base/io.h.
/// Source  gguf 0.19, which reads what this writes (dev/golden/gguf_files.py --check).
int64_t write_gguf(Io&, const std::string& path, const GgufMetadata& metadata,
                   std::span<const GgufTensorToWrite> tensors);

}  // namespace tern
