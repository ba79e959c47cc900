#pragma once
// Texts as vectors, driven as an Engine is: texts join and leave between steps, a step runs one batch. It stands beside
// the engine and not in it: a text is read once and whole (an encoder's tokens see those behind them), so there are no keys
// to keep, no chunks, nothing to preempt and nothing to draw. Both use RaggedBatch. One thread at a time.

#include <cstdint>
#include <exception>
#include <map>
#include <vector>

#include "formats/hf/sentence_config.h"
#include "infer/ragged.h"

namespace tern {

struct EmbeddingSettings {
  Pooling pooling = Pooling::mean;
  bool normalize = false;  // to length 1; a vector of zeros stays
  int64_t batch = 32;      // texts at a time: changes speed and memory, not the result
};

/// A text has its vector, or failed.
struct EmbeddingEvent {
  uint64_t text = 0;
  std::vector<float> vector;      // (width); empty if it failed
  std::exception_ptr error = {};  // NotFinite: the vector would hold NaN or infinity
};

/// Texts a step takes at a time: settings.batch, or one where the rotary table depends on a text's length.
int64_t texts_at_a_time(const ModelSpec&, const EmbeddingSettings&);

class Embedder {
 public:
  /// It references its arguments. `pooler` is for Pooling::pooler only; `longest`: tokens of a text, at most.
  Embedder(const ModelSpec&, const ModelWeights&, const Linear* pooler, int64_t longest, const EmbeddingSettings&,
           Arena&);
  /// Lines up a text and returns its number, counted from 0. Ids with what the tokenizer adds, inside the vocabulary
  /// (checked by the caller). Errors: usage, if there is no token or more than `longest`, with both numbers.
  uint64_t submit(std::vector<int32_t> tokens);
  /// The vectors of the texts that waited longest, in their order; nothing if none waits.
  /// Order   exact kernels, and sums over the tokens of one text in their order, in doubles: a text's vector has the same
  ///         bits whatever shares its batch and on any number of threads.
  /// Source  the pooling of sentence-transformers 6.2, judged by its output (dev/golden/embeddings.py).
  std::vector<EmbeddingEvent> step();
  /// Forgets a text that waits; no event of it follows. False if it no longer waits.
  bool cancel(uint64_t text);
  bool idle() const { return waiting_.empty(); }
  int64_t num_waiting() const { return static_cast<int64_t>(waiting_.size()); }

 private:
  const ModelSpec& spec_;
  const ModelWeights& weights_;
  const Linear* pooler_;
  int64_t longest_;
  EmbeddingSettings settings_;
  Arena& arena_;
  RopeTable rope_;                                    // of all texts, where none has its own
  std::map<uint64_t, std::vector<int32_t>> waiting_;  // by number, which is by arrival
  uint64_t next_ = 0;
};

}  // namespace tern
