#pragma once
// The memory that inference will hold, predicted before anything large is allocated, and whether it fits.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "infer/kv_cache.h"
#include "infer/load.h"
#include "infer/stream_window.h"
#include "model/model_files.h"

namespace tern {

/// Predicted bytes. Loading holds the plain weights and the largest packed matrix. Running holds the packed weights, the KV pages, and the
/// largest unit of an iteration, or the last unit's output with the logits. tensors() is what an arena counts; it is exact if an iteration
/// has `iteration_tokens` tokens.
struct InferenceFit {
  int64_t weights = 0, kv_cache = 0, loading_peak = 0;
  int64_t adapters = 0;                           // the part of `weights` that adapters beside the model take
  int64_t activations = 0, last = 0, logits = 0;  // of the largest unit; the last unit's output; its logits
  int64_t sampler = 0;  // scores and candidates of one row for each thread that draws, outside of the arena
  int64_t ring = 0;     // of the ring's slots, if weights stream (infer/stream_plan.h)
  int64_t beside = 0;   // what compute threads keep between calls, and tables of rotations
  int64_t running() const { return std::max(activations, last + logits); }
  int64_t tensors() const { return std::max(loading_peak, weights + ring + kv_cache + running()); }
  int64_t peak() const { return std::max(loading_peak, weights + ring + kv_cache + running() + sampler); }
  int64_t total() const { return peak() + beside; }
};
/// The sizes of an inference. With `sequences` 0 it is an evaluation: windows of `context` tokens, without a cache.
struct InferenceNeeds {
  int64_t context = 0, sequences = 1, page_tokens = 16, iteration_tokens = 1, logit_rows = 1;
  int64_t positions = 0;                        // of the tables of rotations; 0: as many as `context`
  std::span<const NamedAdapter> adapters = {};  // beside the model
  std::optional<KvType> kv = {};                // the type that keys and values are kept in; none: as they are computed
  // The client wants the rows of the last layer, so the head is not needed.
  bool vectors = false;
  int64_t kv_on_disk = 0;    // layers whose keys and values lie in a file (infer/kv_on_disk.h)
  bool in_integers = false;  // coded matrices are multiplied in integers (WeightsIn::coded_int8)
  // No matrix stays that can be read in bands, whether it fits or not: it streams through this window.
  std::optional<StreamWindow> window = {};
};
/// The shape of the cache for these needs, of a model computed in this type.
KvShape kv_shape(const ModelSpec&, DType computed, const InferenceNeeds&);
/// The most tokens of an iteration: a chunk of the prompt, or with several sequences the scheduler's token budget.
int64_t iteration_tokens(int64_t prompt, int64_t chunk, int64_t sequences);
/// The prediction for these needs. `coded`: the matrices that stay as a file codes them, with WeightsIn::coded_file.
InferenceFit inference_fit(const ModelSpec&, DType, const InferenceNeeds&, const CodedBytes& coded = {});
/// The number of pages that all sequences need at their longest.
int64_t kv_pages(const InferenceNeeds&);
/// The bytes that tensors may take, and where that figure comes from.
struct MemoryBudget {
  int64_t bytes = 0;
  std::string source;    // in words for people
  int64_t program = -1;  // ≥ 0: --memory is the limit, and the program itself takes this much of it
  double elsewhere = 0;  // of each byte by which --memory grows, the part that goes to something else
};
/// "--memory 39MiB": the value that would allow `needed` bytes of tensors. Empty: --memory is not the limit, or the machine has too little memory.
std::string memory_remedy(const MemoryBudget&, int64_t needed);
/// Refuses an inference for which the budget is too small. Errors: does_not_fit (exit 3) with the bytes of each class and the nearest settings
/// that fit.
void check_fit(const ModelSpec&, DType, const InferenceNeeds&, const MemoryBudget&, const CodedBytes& coded = {});
/// The WeightsIn for these coded bytes.
inline WeightsIn place_of(const CodedBytes& coded) {
  return coded.empty() ? WeightsIn::mapped_file : WeightsIn::coded_file;
}
/// The matrices that stay coded by default. If the decoded weights fit, none stays coded, as decoded ones multiply faster; otherwise all do
/// that can. The bits are the same. Errors: those of coded_bytes.
CodedBytes coded_to_fit(const ModelDescription&, const InferenceNeeds&, const MemoryBudget&);

}  // namespace tern
