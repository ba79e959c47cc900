#pragma once
// A model from its directory, ready to infer: described first, so that it can be judged before anything large is
// allocated.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "formats/hf/config.h"
#include "formats/hf/generation_config.h"
#include "formats/model_dir.h"
#include "formats/tokenizer/tokenizer.h"
#include "infer/kv_cache.h"
#include "model/model_files.h"
#include "model/weights.h"

namespace tern {

/// One of several adapters that stand beside a model, each for the requests that name it.
struct NamedAdapter {
  std::string name, dir;  // dir: of PEFT's
  ModelSpec spec;         // of the model with this adapter
};

/// Everything about a model but its weights.
struct ModelDescription {
  ModelDir dir;
  HfConfig config;
  GenerationConfig generation;
  ModelSpec spec;
  std::optional<Tokenizer> tokenizer;  // absent: the directory has none
  DType dtype = DType::f32;            // to compute in
  std::string adapter;                 // PEFT directory whose branches `spec` has, or gates of `beside`; empty: none
  std::vector<NamedAdapter>
      beside;                      // instead of `adapter`: adapters from which a request chooses one by its index here
                                   // (Request::adapter); `spec` is without them
  std::vector<std::string> notes;  // what a person should know, one sentence each
};
/// dtype absent: the one the model was saved in, f16 as f32. Errors: bad_file, usage.
/// With `problems`: what is wrong with generation_config.json or the tokenizer goes there, and that part stays out.
ModelDescription describe_model(const std::string& model, std::optional<DType> dtype, const ResolveOptions& = {},
                                std::vector<std::string>* problems = nullptr);

/// Gives the model the adapter of a PEFT directory. Errors: bad_file naming file and key or module.
void take_adapter(ModelDescription&, const std::string& dir);

/// Puts it beside the model, behind those that are there. Errors: as above.
void take_adapter_beside(ModelDescription&, const std::string& name, const std::string& dir);

/// Weights in the exact kernels' layout (f64: plain), with the adapters.
ModelWeights load_for_inference(const ModelDescription&, Arena&, WeightsIn = WeightsIn::mapped_file);

/// Loads only the adapters, into weights that were loaded otherwise; magnitudes become factors (model/row_lengths.h).
void load_adapter_of(const ModelDescription&, ModelWeights&, Arena&);

/// Ids that end a sample: generation_config.json's, else config.json's, else the tokenizer's.
std::vector<int32_t> end_tokens(const ModelDescription&);
/// The longest sequence the model allows: the number of learned positions, or what rotary models state as
/// max_position_embeddings, with dynamic scaling times its factor.
int64_t model_context(const ModelDescription&);

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
