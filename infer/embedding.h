#pragma once
// Texts as vectors: the rows of a model's last layer, pooled to one row per text.

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "formats/sentence_config.h"
#include "model/unit.h"

namespace tern {

struct EmbeddingSettings {
  Pooling pooling = Pooling::mean;
  bool normalize = false;  // to length 1; a vector of zeros stays
  int64_t batch = 32;      // texts at a time: changes speed and memory, not the result
};

/// One vector of the model's width per text, in their order, f32. `texts`: ids with what the tokenizer adds, none
/// empty, none longer than the model's context, all inside its vocabulary (checked by the caller).
/// Order   exact kernels, and sums over the tokens of one text in their order, in doubles: a text's vector has the same
///         bits whatever shares its batch and on any number of threads.
/// `pooler` is for Pooling::pooler only. `on_batch(done)` after each batch; false stops.
/// Errors  interrupted.
/// Source  the pooling of sentence-transformers 6.2, judged by its output (dev/golden/embeddings.py).
std::vector<float> embed_texts(const ModelSpec&, const ModelWeights&, const Linear* pooler,
                               std::span<const std::vector<int32_t>> texts, const EmbeddingSettings&, Arena&,
                               const std::function<bool(int64_t)>& on_batch = {});

/// Tokens of the largest batch.
int64_t largest_batch(std::span<const std::vector<int32_t>> texts, int64_t batch);

/// Errors  does_not_fit (exit 3): what it needs, what there is, and what would fit.
void check_embedding_fit(const ModelSpec&, DType, std::span<const std::vector<int32_t>> texts, const EmbeddingSettings&,
                         int64_t memory_bytes, const std::string& memory_source);

}  // namespace tern
