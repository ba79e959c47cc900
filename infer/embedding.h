#pragma once
// Turns a list of texts into vectors: for each text the rows of the model's last layer, pooled to one row. A client of the Embedder.

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "infer/embedder.h"

namespace tern {

/// Takes the vectors of texts [first, first + vectors.size() / width), row by row. Returns false to stop.
using VectorSink = std::function<bool(int64_t first, std::span<const float> vectors)>;

/// Gives `sink` a vector (width) in f32 for each text, batch by batch, in the order of texts. `texts`: ids with what the tokenizer adds. The
/// caller has checked that no text is empty or longer than the model's context, and that the vocabulary has all ids. Bits and pooler: as
/// the Embedder says.
/// Memory  that of one batch; no vector is kept.
/// Errors  interrupted: `sink` returned false; NotFinite, with the number of the text from 1: a vector has NaN or infinity.
void embed_texts(const ModelSpec&, const ModelWeights&, const Linear* pooler,
                 std::span<const std::vector<int32_t>> texts, const EmbeddingSettings&, Arena&, const VectorSink&);

}  // namespace tern
