#include "formats/safetensors/shards.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/io.h"
#include "base/json.h"
#include "formats/safetensors/safetensors_impl.h"
#include "formats/safetensors/write.h"

namespace tern {
namespace {

constexpr std::string_view kIndexName = "model.safetensors.index.json";

/// model.safetensors, model-00001-of-00003.safetensors, the index: files write_model_weights may have written.
bool is_ours(std::string_view name) {
  if (name == "model.safetensors" || name == kIndexName) return true;
  constexpr std::string_view kPattern = "model-#####-of-#####.safetensors";
  return name.size() == kPattern.size() && std::equal(name.begin(), name.end(), kPattern.begin(), [](char c, char p) {
           return p == '#' ? c >= '0' && c <= '9' : c == p;
         });
}

struct Shards {
  std::vector<std::pair<size_t, size_t>> ranges;  // [begin, end) of tensors
  int64_t total_bytes = 0;
};

// In the tensors' order, each shard as full as may be.
Shards cut_into_shards(std::span<const TensorToWrite> tensors, int64_t max_shard_bytes) {
  Shards shards;
  int64_t filled = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const int row = safetensors_type_row(tensors[i].dtype);
    const std::optional<int64_t> bytes =
        safetensors_bytes(tensors[i].shape, safetensors_types()[static_cast<size_t>(row)].bits);
    if (!bytes)
      throw Error(ErrorKind::usage, "write_model_weights: tensor {}: impossible shape", shown(tensors[i].name));
    if (shards.ranges.empty() || (filled > 0 && *bytes > max_shard_bytes - filled)) {
      shards.ranges.emplace_back(i, i);
      filled = 0;
    }
    shards.ranges.back().second = i + 1;
    filled += *bytes;
    shards.total_bytes += *bytes;
  }
  if (shards.ranges.size() > 99'999)
    throw Error(ErrorKind::usage, "write_model_weights: {} shards of at most {} bytes; allow larger ones",
                shards.ranges.size(), max_shard_bytes);
  return shards;
}

}  // namespace

std::vector<std::string> write_model_weights(Io& io, const std::string& directory,
                                             std::span<const TensorToWrite> tensors, int64_t max_shard_bytes,
                                             const SafetensorsMetadata& metadata) {
  if (max_shard_bytes <= 0)
    throw Error(ErrorKind::usage, "write_model_weights: shards of {} bytes, expected more than 0", max_shard_bytes);

  const auto [shards, total] = cut_into_shards(tensors, max_shard_bytes);
  std::vector<std::string> names;
  if (shards.size() <= 1) {
    names.push_back("model.safetensors");
    write_safetensors(io, join_path(directory, names[0]), tensors, metadata);
  } else {
    std::map<std::string_view, std::string_view> weight_map;
    for (size_t s = 0; s < shards.size(); ++s)
      names.push_back(fmt::format("model-{:05}-of-{:05}.safetensors", s + 1, shards.size()));
    for (size_t s = 0; s < shards.size(); ++s) {
      const auto [begin, end] = shards[s];
      for (size_t i = begin; i < end; ++i)
        if (!weight_map.emplace(tensors[i].name, names[s]).second)
          throw Error(ErrorKind::usage, "write_model_weights: tensor {} is given twice", shown(tensors[i].name));
      write_safetensors(io, join_path(directory, names[s]), tensors.subspan(begin, end - begin), metadata);
    }
    std::string json =
        fmt::format("{{\n  \"metadata\": {{\n    \"total_size\": {}\n  }},\n  \"weight_map\": {{", total);
    const char* comma = "\n";
    for (const auto& [tensor, file] : weight_map)
      json += fmt::format("{}    {}: {}", std::exchange(comma, ",\n"), quote_json(tensor), quote_json(file));
    json += "\n  }\n}\n";
    names.emplace_back(kIndexName);
    write_file_atomically(io, join_path(directory, kIndexName), json);
  }

  const std::set<std::string> kept(names.begin(), names.end());
  bool removed = false;
  for (const std::string& name : io.list(directory)) {
    if (!is_ours(name) || kept.contains(name)) continue;
    io.remove(join_path(directory, name));
    removed = true;
  }
  if (removed) io.sync_dir(directory);
  return names;
}

}  // namespace tern
