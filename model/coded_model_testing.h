#pragma once
// GGUF files of tiny models whose matrices are coded, for tests.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "base/io.h"
#include "base/weight_type.h"
#include "formats/gguf/model.h"
#include "formats/gguf/write.h"
#include "kernels/cpu/decode.h"
#include "model/file_bands.h"
#include "model/gguf_slots.h"
#include "model/model_testing.h"
#include "model/save_coded.h"
#include "model/visit_weights.h"

namespace tern {

/// So small that these models have many bands.
inline constexpr BandSizes kSmallBands{.most = 1500, .least = 1};

/// The logits of all positions of one sequence.
inline Tensor logits_of(const ModelSpec& spec, const ModelWeights& weights, const std::vector<int32_t>& tokens,
                        const Compute& c) {
  const bool turned = spec.rope.kind != RopeKind::none;
  const RopeTable rope = turned ? rope_table(spec, 64, 64) : RopeTable{};
  const Rows rows = make_rows(tokens, {0, static_cast<int64_t>(tokens.size())}, turned ? &rope : nullptr);
  const Tensor x = model_forward(spec, weights, rows, nullptr, c);
  std::vector<int32_t> all(tokens.size());
  std::iota(all.begin(), all.end(), 0);
  return head_logits(spec, weights, x, all, c);
}

/// A model whose rows fill the blocks of every type.
inline HfConfig coded_config(const std::string& family, bool tied) {
  HfConfig c = tiny_config(family);
  c.hidden_size = c.intermediate_size = 256;
  c.head_dim = 64;
  c.num_hidden_layers = 1;
  c.max_position_embeddings = 64;
  c.tie_word_embeddings = tied;
  return c;
}

/// `count` blocks, each with numbers of at most `most`: random bytes may hold scales that are huge.
inline std::vector<std::byte> coded_blocks(WeightType type, int64_t count, float most, std::mt19937_64& random) {
  constexpr int64_t kDifferent = 12;
  const auto block = static_cast<size_t>(row_of(type).block_bytes);
  std::vector<std::byte> different(static_cast<size_t>(std::min(count, kDifferent)) * block), all;
  std::vector<float> numbers(static_cast<size_t>(row_of(type).block_elements));
  for (size_t at = 0; at < different.size(); at += block)
    for (bool sane = false; !sane;) {
      for (size_t i = 0; i < block; ++i) different[at + i] = static_cast<std::byte>(random());
      decode_blocks(type, std::span(different).subspan(at, block), numbers);
      sane = std::ranges::all_of(numbers, [&](float x) { return std::abs(x) < most; });
    }
  for (int64_t n = 0; n < count; ++n) {
    const size_t at = random() % (different.size() / block) * block;
    all.insert(all.end(), different.begin() + static_cast<ptrdiff_t>(at),
               different.begin() + static_cast<ptrdiff_t>(at + block));
  }
  return all;
}

/// A file of the model with random weights, its matrices in turn of these types, so that fused layers mix them; vectors and
/// positions are f32.
inline void write_coded_model(const HfConfig& config, const std::vector<WeightType>& types, const std::string& path) {
  const ModelSpec spec = model_spec(config);
  GgufMetadata metadata;
  add_gguf_config(metadata, config);
  metadata.add("tokenizer.ggml.model", "none");
  std::vector<std::vector<std::byte>> coded;
  std::vector<GgufTensorToWrite> tensors;
  std::mt19937_64 random(7);
  size_t matrices = 0;
  const std::vector<ParameterInfo> infos = parameters(spec);
  for (const ParameterInfo& info : infos)
    for (const GgufSlot& slot : gguf_slots(spec, info)) {
      if (slot.place.expert > 0) continue;  // written with the first
      const std::vector<int64_t> shape = slot.shape();
      const std::string& name = slot.place.name;
      const int64_t count = std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
      if (shape.size() > 1 && info.shape.rank == 2 && name != "position_embd.weight") {
        const WeightType type = types[matrices++ % types.size()];
        coded.push_back(coded_blocks(type, count / row_of(type).block_elements, 0.3f, random));
        tensors.push_back({name, type, shape, {}, coded.back()});
        continue;
      }
      std::vector<float> values;
      for (int64_t i = 0; i < count; ++i)
        values.push_back(static_cast<float>((info.is_norm_weight ? 1 : 0) +
                                            0.1 * random_normal({hash_name(info.name), 3}, static_cast<uint64_t>(i))));
      tensors.push_back({name, WeightType::f32, shape, [values](const FloatSink& sink) { sink(values); }});
    }
  write_gguf(real_io(), path, metadata, tensors);
}

/// Random codes of a matrix, its numbers below 1.
inline CodedMatrix random_codes(const ParameterInfo& info, WeightType type) {
  std::mt19937_64 random(hash_name(info.name) + static_cast<uint64_t>(type));
  const int64_t rows = info.shape[0], in = info.shape[1], row_bytes = stored_bytes(type, 1, in);
  CodedMatrix coded;
  if (table_bytes(type) == 0) {
    coded.rows = coded_blocks(type, rows * in / row_of(type).block_elements, 0.3f, random);
    return coded;
  }
  coded.rows.resize(static_cast<size_t>(rows * row_bytes));
  for (std::byte& b : coded.rows) b = static_cast<std::byte>(random());
  for (int64_t r = 0; r < rows; ++r) {
    const bf16 scale = to_bf16(static_cast<float>(random() % 100 + 1) * 1e-5f);
    std::memcpy(coded.rows.data() + r * row_bytes, &scale, sizeof scale);
  }
  coded.tables.resize(table_parts(info).size() * static_cast<size_t>(table_bytes(type)));
  for (int8_t& t : coded.tables) t = static_cast<int8_t>(random());
  return coded;
}

/// A directory of the model with random codes: matrices of `type`, or of the one that `single` has for them; the table of tokens of Q8_0.
inline CodedSaved write_coded_directory(const HfConfig& config, WeightType type, const std::string& dir,
                                        const std::map<std::string, WeightType>& single = {}) {
  const ModelSpec spec = model_spec(config);
  Arena arena;
  const ModelWeights weights = random_weights(spec, DType::f32, arena, 3);
  CodedMatrix kept;
  const CodeMatrix code = [&](const ParameterInfo& info, WeightType as) -> const CodedMatrix& {
    return kept = random_codes(info, as);
  };
  return save_coded(spec, config, parameters_of(spec, weights), code, {type, WeightType::q8_0, single}, DType::f32, dir,
                    real_io());
}

}  // namespace tern
