#pragma once
// Tests only: llama2.c's model.bin (version 0) and tokenizer as a GGUF file. Both turn neighbouring elements of a head,
// so the rows of q and k stay as they are.

#include <cstring>
#include <string>
#include <vector>

#include "base/io.h"
#include "base/mapped_file.h"
#include "base/text.h"
#include "formats/gguf/write.h"

namespace tern {

inline void write_tiny_llama2c(const std::string& folder, const std::string& out) {
  const MappedFile model(folder + "/model.bin"), pieces(folder + "/tok512.bin");
  int32_t h[7];  // dim, hidden, layers, heads, kv heads, vocabulary, context
  std::memcpy(h, model.bytes().data(), sizeof h);
  const int64_t dim = h[0], hidden = h[1], layers = h[2], heads = h[3], kv = h[4], vocab = h[5];
  const int64_t kv_dim = dim / heads * kv;

  GgufMetadata m;
  m.add("general.architecture", "llama");
  const auto count = [&](const char* key, int64_t n) { m.add(std::string("llama.") + key, static_cast<uint32_t>(n)); };
  count("block_count", layers), count("context_length", h[6]), count("embedding_length", dim);
  count("feed_forward_length", hidden), count("attention.head_count", heads), count("attention.head_count_kv", kv);
  m.add("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  m.add("llama.rope.freq_base", 10000.0f);

  std::vector<std::string> texts;
  std::vector<float> scores;
  std::vector<int32_t> types;
  for (size_t at = 4; at < pieces.size();) {
    float score;
    int32_t length;
    std::memcpy(&score, pieces.bytes().data() + at, 4);
    std::memcpy(&length, pieces.bytes().data() + at + 4, 4);
    std::string text(reinterpret_cast<const char*>(pieces.bytes().data()) + at + 8, static_cast<size_t>(length));
    at += 8 + static_cast<size_t>(length);
    const size_t id = texts.size();
    types.push_back(id == 0 ? 2 : id < 3 ? 3 : id < 259 ? 6 : 1);
    texts.push_back(id == 1 ? "<s>" : id == 2 ? "</s>" : replace_all(text, " ", "\xE2\x96\x81"));
    scores.push_back(score);
  }
  m.add("tokenizer.ggml.model", "llama");
  m.add("tokenizer.ggml.tokens", texts);
  m.add("tokenizer.ggml.scores", scores);
  m.add("tokenizer.ggml.token_type", types);
  m.add("tokenizer.ggml.bos_token_id", uint32_t{1});
  m.add("tokenizer.ggml.eos_token_id", uint32_t{2});
  m.add("tokenizer.ggml.unknown_token_id", uint32_t{0});

  std::vector<GgufTensorToWrite> tensors;
  const auto* at = reinterpret_cast<const float*>(model.bytes().data() + sizeof h);
  const auto take = [&](const std::string& name, std::vector<int64_t> shape) {
    int64_t n = 1;
    for (const int64_t size : shape) n *= size;
    tensors.push_back({name, WeightType::f32, std::move(shape),
                       [at, n](const FloatSink& sink) { sink(std::span(at, static_cast<size_t>(n))); }});
    at += n;
  };
  const auto per_layer = [&](const char* name, std::vector<int64_t> shape) {
    for (int64_t l = 0; l < layers; ++l) take("blk." + std::to_string(l) + "." + name + ".weight", shape);
  };
  take("token_embd.weight", {vocab, dim});
  per_layer("attn_norm", {dim}), per_layer("attn_q", {dim, dim}), per_layer("attn_k", {kv_dim, dim});
  per_layer("attn_v", {kv_dim, dim}), per_layer("attn_output", {dim, dim}), per_layer("ffn_norm", {dim});
  per_layer("ffn_gate", {hidden, dim}), per_layer("ffn_down", {dim, hidden}), per_layer("ffn_up", {hidden, dim});
  take("output_norm.weight", {dim});
  write_gguf(real_io(), out, m, tensors);
}

}  // namespace tern
