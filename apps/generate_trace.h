#pragma once
// tern generate --trace: what three decoded tokens read, compute and write, as it was predicted and as it was measured.

#include <cstdint>
#include <optional>
#include <string>

#include "infer/load.h"
#include "infer/request.h"
#include "infer/step_recorder.h"

namespace tern {

class InferenceWeights;
class Options;

/// Errors: usage: --trace with --prompts.
void refuse_trace_of_prompts(const Options&);

class GenerateTrace {
 public:
  /// `guesses`: whether tokens are guessed. Without --trace it does nothing. Errors: usage: --trace with guesses, with a gated adapter, or with fewer than
  /// five tokens to write (--max-tokens, or what the context leaves); those of require_trace_place.
  GenerateTrace(const Options&, const ModelDescription&, const Request&, int64_t context, bool guesses);
  StepRecorder* recorder() { return recorder_ ? &*recorder_ : nullptr; }
  /// Writes the file, atomically, once the text has ended. With weights that stream it holds the predicted run too. Tells the user where it is and what it
  /// lacks. A trace is not worth a text: if it cannot be written, a note says so.
  void write(const ModelSpec&, const InferenceWeights&, const KvPool&) const;

 private:
  std::string path_;
  std::string steps_;  // which ones it shows, in words
  std::optional<StepRecorder> recorder_;
};

}  // namespace tern
