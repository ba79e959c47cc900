#pragma once
// The weights that a verb runs: whole, or streamed where memory does not hold them, with the words about it.

#include <algorithm>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "infer/embedding.h"
#include "infer/load.h"
#include "infer/memory_fit.h"
#include "infer/run.h"
#include "infer/stream_plan.h"
#include "model/load_streamed.h"
#include "store/choose_reader.h"

namespace tern {

class Options;

/// What a verb decides before anything large is allocated.
struct WeightsChoice {
  InferenceFit fit;
  CodedBytes coded;                  // what stays coded; empty: nothing
  std::optional<StreamPlan> stream;  // set where the weights fit only if a part of them streams
  int64_t vectors = 0;               // bytes beside the fit: a pooler and a batch's vectors
  int64_t peak() const { return std::max(fit.loading_peak, fit.peak() + vectors); }
};
/// By weights_option; auto: decoded if that fits, else coded (stays_coded), else streamed. Errors: those of check_fit,
/// plan_stream.
WeightsChoice choose_weights(const Options&, const ModelDescription&, const InferenceNeeds&, const MemoryBudget&);
/// The size of a prompt's chunks. Where weights stream and --chunk is not given: the size with which the prompt and `tokens`
/// more tokens read the fewest bytes, as every chunk reads the weights again, and a larger one leaves less memory for weights
/// that stay. Else `chunk`.
int64_t choose_chunk(const Options&, const ModelDescription&, InferenceNeeds, const MemoryBudget&, int64_t prompt,
                     int64_t tokens, int64_t chunk);

/// For texts that become vectors. `kept`: bytes that the caller keeps of these. Errors: those of check_embedding_fit, plan_stream.
WeightsChoice choose_weights_to_embed(const Options&, const ModelDescription&,
                                      std::span<const std::vector<int32_t>> texts, const EmbeddingSettings&,
                                      int64_t kept, const MemoryBudget&);
/// The context of a verb that does not know its texts: --context, else what the model allows up to a usual length, halved
/// until it fits; where weights stream, until keys and values take an eighth of memory. Errors: usage: beyond the model's.
int64_t choose_context(const Options&, const ModelDescription&, const MemoryBudget&,
                       const std::function<InferenceNeeds(int64_t context)>& needs_of);
/// Whether weights can stream beside keys and values that take no more than an eighth of memory.
bool streams_well(const ModelDescription&, const InferenceNeeds&, const MemoryBudget&);

/// What one pass over the weights computes.
enum class WeightsPass : uint8_t { token, batch };

class InferenceWeights {
 public:
  /// Loads the weights. Where they stream, it first tells what stays, the bound and the predicted time of a token (for batches
  /// the disk's part of it), from a short probe of the disk and the kernels. Errors: those of load_for_inference, load_streamed.
  InferenceWeights(const Options&, const ModelDescription&, const WeightsChoice&, int64_t tokens, Arena&,
                   WeightsPass = WeightsPass::token);
  const ModelWeights& weights() const { return stream_ ? streamed_.weights : whole_; }
  std::string_view name() const { return name_; }  // "packed", …; "streamed"
  bool streams() const { return stream_ != nullptr; }
  /// No pass is quicker: what streams and `more_bytes` from the same disk, or the products. 0 if nothing streams.
  double least_pass_s(int64_t more_bytes) const;
  /// The share of the bound that decoding reached, for people; empty if nothing streams or nothing was decoded.
  std::string reached(const RunTimings&) const;
  /// Of what streams.
  Json json(const RunTimings& = {}) const;

 private:
  void tell_before() const;
  CacheHits expert_hits() const;  // since the weights were loaded
  Json experts_json() const;
  const StreamPlan* stream_ = nullptr;
  WeightsPass pass_;
  std::string_view name_;
  ModelWeights whole_;
  StreamedModel streamed_;
  RingSettings ring_;
  ChosenReader reader_;  // its files are with the weights
  StreamRates rates_;
};

}  // namespace tern
