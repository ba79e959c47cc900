#pragma once
// The memory that an embedding of texts holds, predicted before anything large is allocated, and whether it fits.

#include <cstdint>
#include <span>
#include <vector>

#include "infer/embedder.h"
#include "infer/memory_fit.h"

namespace tern {

/// What an embedding of these texts needs. Texts are ids with what the tokenizer adds, in all functions of this file.
struct EmbeddingNeeds {
  InferenceNeeds model;  // the arguments of inference_fit
  int64_t pooler = 0;    // bytes of the pooler's matrix and its packed copy
  int64_t batch = 0;     // bytes of the vectors of a batch
};
EmbeddingNeeds embedding_needs(const ModelSpec&, DType, std::span<const std::vector<int32_t>> texts,
                               const EmbeddingSettings&);
/// The peak of the bytes that loading and embed_texts hold, with the pooler if the settings ask for it. A model whose rotary table depends on
/// the length takes one text at a time, whatever settings.batch says.
int64_t embedding_peak(const ModelSpec&, DType, std::span<const std::vector<int32_t>> texts, const EmbeddingSettings&);
/// Resident bytes beside the tensors: what compute threads keep between calls, and rotary tables.
int64_t embedding_beside(const ModelSpec&, DType, std::span<const std::vector<int32_t>> texts,
                         const EmbeddingSettings&);
/// Refuses an embedding for which the budget is too small. `kept`: bytes of vectors that the caller keeps.
/// Errors  does_not_fit (exit 3), with the bytes that it needs, those that there are, and settings that would fit.
void check_embedding_fit(const ModelSpec&, DType, std::span<const std::vector<int32_t>> texts, const EmbeddingSettings&,
                         int64_t kept, const MemoryBudget&);

}  // namespace tern
