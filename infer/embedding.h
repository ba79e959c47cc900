#pragma once
// Many texts as vectors: the rows of a model's last layer, pooled to one row per text; a client of the Embedder.

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "infer/embedder.h"
#include "infer/memory_fit.h"

namespace tern {

/// Takes the vectors of texts [first, first + vectors.size() / width), row by row; false stops.
using VectorSink = std::function<bool(int64_t first, std::span<const float> vectors)>;

/// One vector of the model's width per text, f32, given away batch by batch in their order. `texts`: ids with what the
/// tokenizer adds, none empty, none longer than the model's context, all inside its vocabulary (checked by the caller).
/// Bits, pooler and pooling as Embedder has them.
/// Memory  one batch's; no vector is kept.
/// Errors  interrupted; NotFinite, naming the text by its number from 1: a vector with NaN or infinity.
void embed_texts(const ModelSpec&, const ModelWeights&, const Linear* pooler,
                 std::span<const std::vector<int32_t>> texts, const EmbeddingSettings&, Arena&, const VectorSink&);

/// What embedding these texts needs: the arguments of inference_fit, and bytes on top of its answer.
struct EmbeddingNeeds {
  InferenceNeeds model;
  int64_t pooler = 0, batch = 0;  // bytes: the matrix and its packed copy; the vectors of a batch
};
EmbeddingNeeds embedding_needs(const ModelSpec&, DType, std::span<const std::vector<int32_t>> texts,
                               const EmbeddingSettings&);
/// Bytes that embed_texts and loading hold at their most, with the pooler where it is asked for. A model whose rotary
/// table depends on the length takes one text at a time, whatever settings.batch says.
int64_t embedding_peak(const ModelSpec&, DType, std::span<const std::vector<int32_t>> texts, const EmbeddingSettings&);
/// Resident bytes beside the tensors: what compute threads keep between calls, and rotary tables.
int64_t embedding_beside(const ModelSpec&, DType, std::span<const std::vector<int32_t>> texts,
                         const EmbeddingSettings&);
/// `kept`: bytes that the caller keeps of the vectors.
/// Errors  does_not_fit (exit 3): what it needs, what there is, and what would fit.
void check_embedding_fit(const ModelSpec&, DType, std::span<const std::vector<int32_t>> texts, const EmbeddingSettings&,
                         int64_t kept, const MemoryBudget&);

}  // namespace tern
