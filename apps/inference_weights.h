#pragma once
// The weights that a verb runs: whole, or streamed where memory does not hold them, with the words about it.

#include <optional>
#include <string_view>

#include "apps/common.h"
#include "base/json.h"
#include "infer/load.h"
#include "infer/run.h"
#include "infer/stream_plan.h"

namespace tern {

/// What a verb decides before anything large is allocated.
struct WeightsChoice {
  InferenceFit fit;
  CodedBytes coded;                  // of a GGUF file that fits so
  std::optional<StreamPlan> stream;  // what does not fit otherwise
};
/// By --weights; auto: decoded if that fits, else coded (stays_coded), else streamed. Errors: those of check_fit,
/// plan_stream.
WeightsChoice choose_weights(const Options&, const ModelDescription&, const InferenceNeeds&, const MemoryBudget&);
/// The chunk in which a prompt is read, where weights stream and --chunk does not say: each chunk reads them once more, and
/// takes memory in which they could stay. The fewest bytes for the prompt and `tokens` more. Else `chunk`.
int64_t choose_chunk(const Options&, const ModelDescription&, InferenceNeeds, const MemoryBudget&, int64_t prompt,
                     int64_t tokens, int64_t chunk);

class InferenceWeights {
 public:
  /// Loads them. Of what streams it tells first what stays, the bound and the prediction, from a short counted probe of the
  /// disk and the kernels. Errors: those of load_for_inference, load_streamed.
  InferenceWeights(const Options&, const ModelDescription&, const WeightsChoice&, int64_t tokens, Arena&);
  const ModelWeights& weights() const { return stream_ ? streamed_.weights : whole_; }
  std::string_view name() const { return name_; }  // "packed", …; "streamed"
  bool streams() const { return stream_ != nullptr; }
  /// What decoding reached of the bound, for people; empty if nothing streams or nothing was decoded.
  std::string reached(const RunTimings&) const;
  Json json(const RunTimings&) const;

 private:
  void tell_before() const;
  const StreamPlan* stream_ = nullptr;
  std::string_view name_;
  ModelWeights whole_;
  StreamedModel streamed_;
  ReadWay way_ = ReadWay::direct;
  ProbedRate probe_;
  StreamRates rates_;
};

}  // namespace tern
