#pragma once
// Bytes that inference will hold, predicted before anything large is allocated, and whether they fit.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "infer/kv_cache.h"
#include "infer/load.h"
#include "model/model_files.h"

namespace tern {

/// Bytes that inference will hold, predicted before it allocates. Peaks: loading holds the plain weights and the
/// largest packed matrix; running holds packed weights, the KV pages, and one iteration's largest unit, or the last
/// unit's output with the logits. `tensors` is what an arena counts: exact where an iteration has `iteration_tokens`.
struct InferenceFit {
  int64_t weights = 0, kv_cache = 0, loading_peak = 0;
  int64_t adapters = 0;                           // of `weights`: those that stand beside the model
  int64_t activations = 0, last = 0, logits = 0;  // the largest unit's; rows of the last one, and their logits
  int64_t sampler = 0;                            // of the row at hand, outside of the arena: scores and candidates
  int64_t ring = 0;                               // of slots, where weights stream (stream_plan.h)
  int64_t beside = 0;                             // what compute threads keep between calls, and tables of rotations
  int64_t running() const { return std::max(activations, last + logits); }
  int64_t tensors() const { return std::max(loading_peak, weights + ring + kv_cache + running()); }
  int64_t peak() const { return std::max(loading_peak, weights + ring + kv_cache + running() + sampler); }
  int64_t total() const { return peak() + beside; }
};
struct InferenceNeeds {  // sequences 0: evaluation, windows of `context` tokens without a cache
  int64_t context = 0, sequences = 1, page_tokens = 16, iteration_tokens = 1, logit_rows = 1;
  int64_t positions = 0;                        // that the tables of rotations hold; 0: as many as the context
  std::span<const NamedAdapter> adapters = {};  // that stand beside the model
  std::optional<KvType> kv = {};                // how keys and values are kept; none: as they are computed
  bool vectors = false;                         // the rows of the last layer are wanted: the head is not needed
  int64_t kv_on_disk = 0;                       // layers whose keys and values lie in a file (infer/kv_on_disk.h)
};
/// The shape of the cache for these needs, of a model computed in this type.
KvShape kv_shape(const ModelSpec&, DType computed, const InferenceNeeds&);
/// The most tokens of an iteration: a chunk of the prompt; with several sequences the scheduler's token budget.
int64_t iteration_tokens(int64_t prompt, int64_t chunk, int64_t sequences);
/// `coded`: the matrices that stay as a file codes them, with WeightsIn::coded_file.
InferenceFit inference_fit(const ModelSpec&, DType, const InferenceNeeds&, const CodedBytes& coded = {});
int64_t kv_pages(const InferenceNeeds&);
/// What tensors may take, and where the figure comes from.
struct MemoryBudget {
  int64_t bytes = 0;
  std::string source;
  int64_t program = -1;  // ≥ 0: --memory gave the limit, and so much of it is the program's own
};
/// "--memory 39MiB": the value that would allow `needed` bytes of tensors, where --memory is the limit and the machine has
/// the memory; else empty.
std::string memory_remedy(const MemoryBudget&, int64_t needed);
/// Errors: does_not_fit (exit 3) with the breakdown and the nearest settings that fit.
void check_fit(const ModelSpec&, DType, const InferenceNeeds&, const MemoryBudget&, const CodedBytes& coded = {});
/// The WeightsIn for these coded bytes.
inline WeightsIn place_of(const CodedBytes& coded) {
  return coded.empty() ? WeightsIn::mapped_file : WeightsIn::coded_file;
}
/// What stays coded by default: nothing if the decoded weights fit (a token is then bound only by the time to read them), else
/// all that can, which multiplies more slowly and gives the same bits. Errors: those of coded_bytes.
CodedBytes coded_to_fit(const ModelDescription&, const InferenceNeeds&, const MemoryBudget&);

}  // namespace tern
