#pragma once
// Directories of matrices that other programs quantized, written by tests.

#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/io.h"
#include "base/json.h"
#include "base/rng.h"
#include "formats/format_test_support.h"
#include "formats/hf/config.h"
#include "formats/safetensors/write.h"
#include "model/fragment.h"
#include "model/model_testing.h"
#include "model/visit_weights.h"
#include "model/weights.h"

namespace tern {

/// A tiny Llama of one layer whose matrices a test packs; `vocab` 0: tiny_config's.
struct HfQuantizedDirectory {
  TemporaryDirectory dir;
  ModelSpec spec;
  std::vector<TensorToWrite> tensors;
  std::vector<std::vector<std::byte>> kept;

  explicit HfQuantizedDirectory(const char* quantization, int64_t vocab = 0) {
    HfConfig c = tiny_config("llama");
    c.hidden_size = 128, c.intermediate_size = 64, c.head_dim = 32, c.num_hidden_layers = 1;
    c.num_attention_heads = 4, c.num_key_value_heads = 2;
    if (vocab > 0) c.vocab_size = vocab;
    spec = model_spec(c);
    Json json = parse_json(hf_config_json(c), "config");
    json["quantization_config"] = parse_json(quantization, "quantization");
    write_file_atomically(real_io(), dir / "config.json", json.dump());
  }
  void add(const std::string& name, DType dtype, std::vector<int64_t> shape, std::vector<std::byte> bytes) {
    kept.push_back(std::move(bytes));
    tensors.push_back({name, dtype, std::move(shape), {}, {}});
  }
  template <class T>
  void add_numbers(const std::string& name, std::vector<int64_t> shape, const std::function<T(int64_t)>& number) {
    int64_t count = 1;
    for (const int64_t n : shape) count *= n;
    std::vector<std::byte> bytes(static_cast<size_t>(count) * sizeof(T));
    for (int64_t i = 0; i < count; ++i) {
      const T x = number(i);
      std::memcpy(bytes.data() + static_cast<size_t>(i) * sizeof(T), &x, sizeof(T));
    }
    add(name, DTypeOf<T>::value, std::move(shape), std::move(bytes));
  }
  void write() {
    for (size_t i = 0; i < tensors.size(); ++i) tensors[i].bytes = kept[i];
    write_safetensors(real_io(), dir / "model.safetensors", tensors);
  }
};

/// Every matrix of the layers in GPTQ's form, by random codes; zeros of 7 + 1 stand in the middle.
inline void add_gptq_layers(HfQuantizedDirectory& d, bool symmetric, bool act_order) {
  constexpr int64_t kGroup = 32;
  for (const ParameterInfo& info : parameters(d.spec)) {
    const uint64_t seed = hash_name(info.name);
    for (const Fragment& f : info.fragments) {
      const int64_t out = f.file_rows, in = info.shape.rank == 2 ? info.shape[1] : 1;
      if (info.shape.rank == 1 || info.name == "embed.tokens" || info.name == "head.projection.weight") {
        d.add_numbers<float>(f.name, info.shape.rank == 2 ? std::vector{out, in} : std::vector{out}, [&](int64_t i) {
          return static_cast<float>((info.is_norm_weight ? 1 : 0) +
                                    0.1 * random_normal({seed, 1}, static_cast<uint64_t>(i)));
        });
        continue;
      }
      const std::string stem = f.name.substr(0, f.name.size() - 7);
      const int64_t groups = in / kGroup;
      const auto bits = [&](uint64_t salt) {
        return [=](int64_t i) { return static_cast<int32_t>(random_u64({seed, salt}, static_cast<uint64_t>(i))); };
      };
      d.add_numbers<int32_t>(stem + ".qweight", {in / 8, out}, bits(static_cast<uint64_t>(2 + f.row_begin)));
      d.add_numbers<int32_t>(stem + ".qzeros", {groups, out / 8},
                             [&](int64_t i) { return symmetric ? 0x77777777 : bits(3)(i) & 0x77777777; });
      d.add_numbers<f16>(stem + ".scales", {groups, out}, [&](int64_t i) {
        return to_f16(static_cast<float>(0.01 + 0.02 * random_uniform({seed, 4}, static_cast<uint64_t>(i))));
      });
      d.add_numbers<int32_t>(stem + ".g_idx", {in},
                             [&](int64_t i) { return static_cast<int32_t>(act_order ? i % groups : i / kGroup); });
      d.add_numbers<float>(stem + ".bias", {out},
                           [](int64_t) { return 0.0f; });  // as AutoGPTQ writes where there is none
    }
  }
}

}  // namespace tern
