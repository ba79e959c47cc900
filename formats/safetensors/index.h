#pragma once
// The weights of a model directory: one safetensors file, or shards under model.safetensors.index.json.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/safetensors/safetensors.h"

namespace tern {

/// model.safetensors.index.json as written.
struct SafetensorsIndex {
  std::vector<std::pair<std::string, std::string>> weight_map;  // tensor name, file name; sorted by tensor name
  std::optional<int64_t> total_size;                            // bytes of all tensors, if the index says
};

/// Errors  bad_file: no object, no weight_map, unknown keys, names over 1 MiB, more than a million tensors, a file name
///         that is not a plain *.safetensors name in the same directory (no '/', no "..").
SafetensorsIndex parse_safetensors_index(std::string_view json, std::string_view place);

/// All tensors of a model, wherever they lie.
class Weights {
 public:
  Weights() = default;
  /// `path` is one .safetensors file, or an index file whose shards lie beside it.
  /// Errors  bad_file: those of Safetensors and of the index; a missing shard; a
  ///         tensor the index places in a file that does not have it; a tensor
  ///         of a shard that the index does not name or places elsewhere.
  explicit Weights(const std::string& path);

  const std::string& path() const { return path_; }
  const std::vector<Safetensors>& files() const { return files_; }
  size_t size() const { return by_name_.size(); }
  TensorView operator[](size_t i) const;  // sorted by name
  std::optional<TensorView> find(std::string_view name) const;
  /// Errors: bad_file, naming the nearest name, if there is none such or its dtype is one tern does not read.
  TensorView get(std::string_view name) const;
  int64_t data_bytes() const;
  /// The file, by its number in files(), and the byte there where a tensor begins; nothing: no such tensor.
  struct InFile {
    int file = 0;
    int64_t offset = 0;
  };
  std::optional<InFile> where(std::string_view name) const;
  /// A hint that this tensor will not be read again: its pages leave the program's resident memory.
  void dont_need(std::string_view name) const;
  /// Reads this tensor now and maps its pages, for a program that will use it where it lies.
  void populate(std::string_view name) const;
  /// What was seen and not followed: a total_size that is not the sum.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  struct Place {
    uint32_t file = 0, tensor = 0;
  };
  std::optional<Place> place_of(std::string_view name) const;

  std::string path_;
  std::vector<Safetensors> files_;
  std::vector<Place> by_name_;
  std::vector<std::string> notes_;
};

}  // namespace tern
