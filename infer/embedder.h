#pragma once
// Turns texts into vectors. A client drives it like an Engine (infer/engine.h): texts join and leave between steps, and a step runs one
// batch. It is no Engine because a text is read once and whole (an encoder's tokens see the tokens after them): there are no keys to keep, no
// chunks, and nothing to preempt or to draw. Used by one thread at a time.

#include <cstdint>
#include <exception>
#include <map>
#include <vector>

#include "formats/hf/sentence_config.h"
#include "infer/ragged.h"

namespace tern {

struct EmbeddingSettings {
  Pooling pooling = Pooling::mean;  // how a text's rows become one
  bool normalize = false;           // scales each vector to length 1; a vector of zeros stays
  int64_t batch = 32;               // texts of a step: it changes speed and memory, not the result
};

/// What became of one text.
struct EmbeddingEvent {
  uint64_t text = 0;              // its number
  std::vector<float> vector;      // (width); empty if the text failed
  std::exception_ptr error = {};  // NotFinite, if the vector would hold NaN or infinity
};

/// The number of texts that a step takes: settings.batch, or one if the model's rotary table depends on a text's length.
int64_t texts_at_a_time(const ModelSpec&, const EmbeddingSettings&);

class Embedder {
 public:
  /// Its arguments must outlive it. `pooler`: of Pooling::pooler, else null. `longest`: the most tokens of a text.
  Embedder(const ModelSpec&, const ModelWeights&, const Linear* pooler, int64_t longest, const EmbeddingSettings&,
           Arena&);
  /// Lines up a text and returns its number, counted from 0. `tokens`: ids with what the tokenizer adds; the caller has checked that the
  /// vocabulary has them. Errors: usage: no token, or more than `longest`, with both numbers.
  uint64_t submit(std::vector<int32_t> tokens);
  /// Computes the vectors of the texts that have waited longest, and returns them in their order. Empty: no text waits.
  /// Order   exact kernels, and sums over the tokens of one text in their order, in doubles. So a text's vector has the same bits whatever
  ///         shares its batch, and on any number of threads.
  /// Source  the pooling of sentence-transformers 6.2, judged by its output (dev/golden/embeddings.py).
  std::vector<EmbeddingEvent> step();
  /// Drops a text that waits; it gets no event. False: it does not wait.
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
