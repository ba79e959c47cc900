#pragma once
// Loads a verb's weights: whole, or streamed if they are larger than memory. Tells the user what it does.

#include <algorithm>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/threads.h"
#include "infer/embedding.h"
#include "infer/embedding_fit.h"
#include "infer/load.h"
#include "infer/memory_fit.h"
#include "infer/run.h"
#include "infer/stream_plan.h"
#include "infer/stream_times.h"
#include "model/load_streamed.h"
#include "store/choose_reader.h"

namespace tern {

class Options;

/// What a verb decides before anything large is allocated.
struct WeightsChoice {
  InferenceFit fit;
  CodedBytes coded;                  // the matrices that stay coded; empty: none
  std::optional<StreamPlan> stream;  // set if the weights fit only when a part of them streams
  int64_t vectors = 0;               // bytes beside `fit`: a pooler and the vectors of a batch
  int64_t peak() const { return std::max(fit.loading_peak, fit.peak() + vectors); }
};
/// The choice that weights_option asks for. For auto: decoded weights if they fit, else coded ones (stays_coded), else streamed ones. Errors: those
/// of check_fit and plan_stream.
WeightsChoice choose_weights(const Options&, const ModelDescription&, const InferenceNeeds&, const MemoryBudget&);
/// The number of tokens of a prompt's chunks: `chunk`, unless weights stream and --chunk is not given. Then it is the number
/// with which the prompt and `tokens` further tokens read the fewest bytes: each chunk reads the weights again, but larger
/// chunks leave less memory for weights that stay.
int64_t choose_chunk(const Options&, const ModelDescription&, const InferenceNeeds&, const MemoryBudget&,
                     int64_t prompt, int64_t tokens, int64_t chunk);

/// The choice for texts that become vectors. `kept`: bytes of vectors that the caller keeps. Errors: those of check_embedding_fit and plan_stream.
WeightsChoice choose_weights_to_embed(const Options&, const ModelDescription&,
                                      std::span<const std::vector<int32_t>> texts, const EmbeddingSettings&,
                                      int64_t kept, const MemoryBudget&);
/// The context of a verb that does not know its texts in advance: --context; else the context that the model allows, up to a usual length, halved
/// until it fits, or, if weights stream, until keys and values take at most an eighth of memory; but not below 512. Errors: usage: the model allows less than --context.
int64_t choose_context(const Options&, const ModelDescription&, const MemoryBudget&,
                       const std::function<InferenceNeeds(int64_t context)>& needs_of);
/// Whether weights can stream beside keys and values that take no more than an eighth of memory.
bool streams_well(const ModelDescription&, const InferenceNeeds&, const MemoryBudget&);

/// What one pass over the weights computes: a token of each sequence that runs, or a batch of texts.
enum class WeightsPass : uint8_t { token, batch };
/// The loaded weights.
class InferenceWeights {
 public:
  /// Loads the weights. If they stream, it first probes disk and kernels for a short time, and tells how much stays in
  /// memory, the bound, and the predicted token rate of `sequences` that decode together; for batches only the disk's time. If loading then
  /// shows another rate of the disk than the probe, it tells bound and prediction again. Errors: those of load_for_inference and load_streamed.
  InferenceWeights(const Options&, const ModelDescription&, const WeightsChoice&, int64_t tokens, Arena&,
                   WeightsPass = WeightsPass::token, int64_t sequences = 1);
  const ModelWeights& weights() const { return stream_ ? streamed_.weights : whole_; }
  std::string_view name() const { return name_; }  // "packed", …; "streamed"
  bool streams() const { return stream_ != nullptr; }
  const StreamPlan* stream() const { return stream_; }  // null: nothing streams
  const StreamRates& rates() const { return rates_; }   // measured if anything streams
  /// A lower bound of a pass's seconds: reading what streams and `more_bytes` more, or the products if they take longer. 0: nothing streams.
  double least_pass_s(int64_t more_bytes) const;
  /// The share of the bound that decoding reached, in words, in passes: one with fewer sequences counts as whole; empty if nothing streams or nothing was decoded.
  std::string reached(const RunTimings&) const;
  /// The figures of streaming.
  Json json(const RunTimings& = {}) const;

 private:
  void tell_before() const;
  void correct_after_filling();
  CacheHits expert_hits() const;  // since the weights were loaded
  Json experts_json() const;
  const StreamPlan* stream_ = nullptr;
  WeightsPass pass_;
  std::string_view name_;
  ModelWeights whole_;
  StreamedModel streamed_;
  RingSettings ring_;
  ChosenReader reader_;              // reads the weights' files from the disk
  std::optional<ShortWaits> waits_;  // where the disk binds; of one sequence's experts also while rates are measured
  StreamRates rates_;
  ProbedRate beside_, of_experts_;  // the reads of measure_beside and measure_experts
};

}  // namespace tern
