#pragma once
// Tests only: weights that are functions of their names in the file, so that golden files hold none
// (dev/golden/families.py makes the same ones).

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/io.h"
#include "base/json.h"
#include "formats/safetensors/write.h"

namespace tern {

inline uint32_t golden_hash(std::string_view name) {
  uint32_t h = 2166136261u;
  for (const char c : name) h = (h ^ static_cast<unsigned char>(c)) * 16777619u;
  return h;
}
inline uint32_t golden_bits(uint32_t seed, uint64_t i) {
  auto x = static_cast<uint32_t>(i * 2654435761u + seed);
  x = (x ^ x >> 16) * 0x85EBCA6Bu;
  x = (x ^ x >> 13) * 0xC2B2AE35u;
  return x ^ x >> 16;
}

/// config.json and model.safetensors of a golden file with "config" and "tensors": {name: {shape, middle, spread}}.
inline void write_golden_model(const Json& golden, const std::string& dir) {
  write_file_atomically(real_io(), join_path(dir, "config.json"), golden["config"].dump());
  std::vector<std::vector<float>> data;
  std::vector<TensorToWrite> entries;
  for (const auto& [name, about] : golden["tensors"].items()) {
    const auto shape = about["shape"].get<std::vector<int64_t>>();
    int64_t count = 1;
    for (const int64_t n : shape) count *= n;
    const float middle = about["middle"].get<float>(), spread = about["spread"].get<float>();
    std::vector<float>& x = data.emplace_back(static_cast<size_t>(count));
    for (size_t i = 0; i < x.size(); ++i)
      x[i] = middle + spread * (static_cast<float>(golden_bits(golden_hash(name), i) >> 8) / 0x1p23f - 1.0f);
    entries.push_back({name, DType::f32, shape, std::as_bytes(std::span(x)), {}});
  }
  write_safetensors(real_io(), join_path(dir, "model.safetensors"), entries);
}

}  // namespace tern
